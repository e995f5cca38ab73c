package cli

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// durationFlag is a duration such as 90s, 24h or 7d. The zero value is unset.
type durationFlag struct {
	wire.Duration
	given bool
}

func (f *durationFlag) Set(text string) error {
	f.given = true
	return f.UnmarshalText([]byte(text))
}

func (f *durationFlag) String() string {
	if !f.given {
		return ""
	}
	return f.Duration.String()
}

func (*durationFlag) Type() string { return "duration" }

// overlapFlag is a duration that may be 0.
type overlapFlag struct{ durationFlag }

func (f *overlapFlag) Set(text string) error {
	if text == "0" || text == "0s" {
		f.given, f.Duration = true, 0
		return nil
	}
	return f.durationFlag.Set(text)
}

// change returns the change that the flag makes, none if it was not given.
func (f *overlapFlag) change() wire.Change[wire.Duration] {
	return wire.Change[wire.Duration]{Given: f.given, Value: f.Duration}
}

// timeFlag is a time in RFC 3339. The zero value is unset.
type timeFlag struct{ wire.Time }

func (f *timeFlag) Set(text string) error {
	if f.UnmarshalText([]byte(text)) != nil {
		return errors.New("must be a time as YYYY-MM-DDThh:mm:ssZ, for example 2026-01-31T12:00:00Z")
	}
	return nil
}

func (*timeFlag) Type() string { return "time" }

// plainFlagError replaces strconv's text for an invalid number, and asks whether another flag was meant.
func plainFlagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names cobra.Command // cobra finds the commands that are near a misspelt one
		c.Flags().VisitAll(func(f *pflag.Flag) {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		})
		names.SuggestionsMinimumDistance = 2
		if near := names.SuggestionsFor(unknown.GetSpecifiedName()); len(near) > 0 {
			return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
		}
	}
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &invalid) && errors.As(err, &number) {
		return fmt.Errorf("--%s: %q is not a valid number", invalid.GetFlag().Name, invalid.GetValue())
	}
	return err
}

// requiredFlags matches cobra's text for flags that are missing.
var requiredFlags = regexp.MustCompile(`^required flag\(s\) "(.*)" not set$`)

// exclusiveFlags matches cobra's text for flags of which only one may be given.
var exclusiveFlags = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)

// oneOfFlags matches cobra's text for flags of which one must be given.
var oneOfFlags = regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`)

// plainGroupError replaces cobra's text for flags that are missing or exclude each other.
func plainGroupError(err error) error {
	if missing := requiredFlags.FindStringSubmatch(err.Error()); missing != nil {
		return fmt.Errorf("give --%s too", strings.ReplaceAll(missing[1], `", "`, " and --"))
	}
	if missing := oneOfFlags.FindStringSubmatch(err.Error()); missing != nil {
		return fmt.Errorf("give --%s", strings.ReplaceAll(missing[1], " ", " or --"))
	}
	found := exclusiveFlags.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	names := strings.Fields(found[1])
	for i := range names {
		names[i] = "--" + names[i]
	}
	if len(names) == 2 {
		return fmt.Errorf("give %s or %s, not both", names[0], names[1])
	}
	last := len(names) - 1
	return fmt.Errorf("give only one of %s and %s", strings.Join(names[:last], ", "), names[last])
}

// endFlags set when something expires: after a duration, at a time, or never.
type endFlags struct {
	in        durationFlag
	at        timeFlag
	permanent bool
}

// add adds the flags of what has a default, which omitted says: "permanent", or "24h".
func (f *endFlags) add(c *cobra.Command, what, omitted string) {
	c.Flags().Var(&f.in, "for", "how long "+what+", for example 24h or 7d; "+omitted+" if omitted")
	c.Flags().Var(&f.at, "until", "until when "+what+", as YYYY-MM-DDThh:mm:ssZ")
	c.MarkFlagsMutuallyExclusive("for", "until")
}

// addWithPermanent adds the flags and --permanent. Without a default, which is a duration or "",
// one of them must be given: nothing that matters lasts for a time that nobody chose.
func (f *endFlags) addWithPermanent(c *cobra.Command, what, omitted string) {
	f.add(c, what, omitted)
	if omitted == "" {
		c.Flags().Lookup("for").Usage = "how long " + what + ", for example 24h or 7d"
	}
	c.Flags().BoolVar(&f.permanent, "permanent", false, "it never expires")
	c.MarkFlagsMutuallyExclusive("for", "until", "permanent")
}

// isChosen reports whether one of the flags was given.
func (f *endFlags) isChosen() bool { return f.in.given || !f.at.IsZero() || f.permanent }

// requireChoice returns the usage error for flags of which none was given.
func (f *endFlags) requireChoice() error {
	if f.isChosen() {
		return nil
	}
	return console.Usagef("say how long: give --for, --until or --permanent")
}

// useDefault sets the default of a block unless one of the flags was given, and says so.
func (f *endFlags) useDefault(con *console.Console) error {
	if f.isChosen() {
		return nil
	}
	con.Notef("The block lasts %s, since none of --for, --until and --permanent is given.", wire.DefaultBlock)
	return f.in.Set(wire.DefaultBlock)
}

// spanFlags select a time range.
type spanFlags struct {
	last durationFlag
	from timeFlag
	to   timeFlag
}

func (f *spanFlags) add(c *cobra.Command) {
	c.Flags().Var(&f.last, "last", "the time up to now, for example 15m, 24h or 7d")
	c.Flags().Var(&f.from, "from", "the start, as YYYY-MM-DDThh:mm:ssZ")
	c.Flags().Var(&f.to, "to", "the end, exclusive")
	c.MarkFlagsMutuallyExclusive("last", "from")
}

// timeRange returns the range; the API's default is the last hour.
func (f *spanFlags) timeRange() wire.TimeRange {
	if f.last.given {
		return wire.TimeRange{Last: f.last.Duration.String()}
	}
	return wire.TimeRange{From: f.from.Time, To: f.to.Time}
}

// instants returns the two ends, zero for an open end.
func (f *spanFlags) instants(now time.Time) (from, to time.Time) {
	if f.last.given {
		return now.Add(-f.last.Std()), f.to.Time.Time
	}
	return f.from.Time.Time, f.to.Time.Time
}

// textFlags adds a flag for each text in the struct that to points to with the tag flag, the usage,
// and for each change of a text, and returns their names.
func textFlags(c *cobra.Command, to any) (names []string) {
	v := reflect.ValueOf(to).Elem()
	for i := range v.NumField() {
		usage, is := v.Type().Field(i).Tag.Lookup("flag")
		if !is {
			continue
		}
		name := flagName(v.Type().Field(i))
		names = append(names, name)
		switch to := v.Field(i).Addr().Interface().(type) {
		case *string:
			c.Flags().StringVar(to, name, "", usage)
		case *wire.Change[string]:
			c.Flags().Var((*changeFlag)(to), name, usage)
		}
	}
	return names
}

// changeFlag is a text that stays as it is if the flag is not given.
type changeFlag wire.Change[string]

func (f *changeFlag) String() string { return f.Value }

func (f *changeFlag) Set(text string) error {
	*f = changeFlag(wire.To(text))
	return nil
}

func (*changeFlag) Type() string { return "string" }

// flagName returns the name of a field in JSON as that of a flag.
func flagName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.ReplaceAll(name, "_", "-")
}

// parseEscalate parses a threshold and a window such as "100/10m".
func parseEscalate(text string) (offences int, within wire.Duration, err error) {
	count, window, found := strings.Cut(text, "/")
	offences, err = rules.ParseCount(count)
	if err == nil {
		err = within.UnmarshalText([]byte(window))
	}
	if err != nil || !found {
		return 0, 0, console.Usagef("--escalate %q is not refusals/time; write for example 100/10m", text)
	}
	return offences, within, nil
}

// limitFlag adds the flag that limits a listing.
func limitFlag(c *cobra.Command, limit *int) {
	c.Flags().IntVar(limit, "limit", 100, "maximum number of rows to show, 0 for all")
}

// requiredText annotates the flags of requireText.
const requiredText = "required_text"

// requireText marks a required flag whose text must not be empty, which the server does not
// check. It panics if there is no such flag.
func requireText(c *cobra.Command, name string) {
	requireFlag(c, name)
	c.Flag(name).Annotations[requiredText] = []string{"true"}
}

// checkRequiredTexts returns an error if a flag of requireText was given an empty text.
func checkRequiredTexts(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, required := f.Annotations[requiredText]; required && strings.TrimSpace(f.Value.String()) == "" && err == nil {
			err = fmt.Errorf("--%s is required and must not be empty", f.Name)
		}
	})
	return err
}

// requireFlag marks a required flag. It panics if there is no such flag.
func requireFlag(c *cobra.Command, flag string) {
	if err := c.MarkFlagRequired(flag); err != nil {
		panic(err)
	}
}
