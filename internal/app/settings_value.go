package app

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wholefile"
)

// value reads and writes a field of Settings as text.
type value struct {
	set  func(text string) error // the error says what is allowed, in one line
	show func() string
	// raw is show without hiding secrets; nil if show hides none.
	raw func() string
}

// exact returns the field with its secrets.
func (v value) exact() string {
	if v.raw != nil {
		return v.raw()
	}
	return v.show()
}

// mustBe returns the error for a text that is not allowed.
func mustBe(allowed, got string) error { return fmt.Errorf("must be %s, got %q", allowed, got) }

func text(field *string) value {
	return value{
		set:  func(s string) error { *field = s; return nil },
		show: func() string { return *field },
	}
}

// address is the URL of a server, shown without its password.
func address(field *string) value {
	v := text(field)
	v.show, v.raw = func() string { return redact(*field) }, v.show
	return v
}

// hook is an HTTP URL, or "". Its error does not contain the URL, which is a secret.
func hook(field *string) value {
	v := text(field)
	v.set = func(s string) error {
		if u, err := url.Parse(s); s != "" && (err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http")) {
			return errors.New("not a URL that can be called; write for example https://example.com/hook")
		}
		*field = s
		return nil
	}
	return v
}

// plainHook is a hook that is no secret, so that it cannot contain one: pages show it. advice
// follows what the error says.
func plainHook(field *string, advice string) value {
	v := hook(field)
	check := v.set
	v.set = func(s string) error {
		u, err := url.Parse(s)
		if err == nil && (u.User != nil || strings.ContainsAny(s, "?#")) {
			return errors.New("must be a URL without user, query and fragment" + advice)
		}
		return check(s)
	}
	return v
}

func oneOf(field *string, allowed ...string) value {
	v := text(field)
	v.set = func(s string) error {
		if !slices.Contains(allowed, s) {
			last := len(allowed) - 1
			return mustBe(strings.Join(allowed[:last], ", ")+" or "+allowed[last], s)
		}
		*field = s
		return nil
	}
	return v
}

func flag(field *bool) value {
	return value{
		set: func(s string) error {
			if s != "true" && s != "false" {
				return mustBe("true or false", s)
			}
			*field = s == "true"
			return nil
		},
		show: func() string { return strconv.FormatBool(*field) },
	}
}

func number(field *int, from, to int) value {
	return value{
		set: func(s string) error {
			n, err := rules.ParseCount(s)
			if err != nil || n < from || n > to {
				return mustBe(fmt.Sprintf("a whole number from %d to %d", from, to), s)
			}
			*field = n
			return nil
		},
		show: func() string { return strconv.Itoa(*field) },
	}
}

// The smallest and the largest size of memory.
const (
	minMemory = 16 << 20
	maxMemory = 1 << 50
)

// sizeUnits are the units of sizes.
var sizeUnits = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}}

// size is a number of bytes in MiB, GiB or TiB.
func size(field *int64) value {
	return value{
		set: func(s string) error {
			for _, unit := range sizeUnits {
				digits, found := strings.CutSuffix(s, unit.name)
				n, err := strconv.ParseInt(digits, 10, 64)
				if found && err == nil && n > 0 && n <= maxMemory/unit.size && n*unit.size >= minMemory {
					*field = n * unit.size
					return nil
				}
			}
			return mustBe("a size from 16MiB to 1024TiB, for example 512MiB or 4GiB", s)
		},
		show: func() string {
			for _, unit := range sizeUnits {
				if *field > 0 && *field%unit.size == 0 {
					return strconv.FormatInt(*field/unit.size, 10) + unit.name
				}
			}
			return ""
		},
	}
}

// memory is a size, or auto for 0.
func memory(field *int64) value {
	sized := size(field)
	return value{
		set: func(s string) error {
			if s == "auto" {
				*field = 0
				return nil
			}
			if sized.set(s) != nil {
				return mustBe("auto or a size from 16MiB to 1024TiB, for example 512MiB or 4GiB", s)
			}
			return nil
		},
		show: func() string { return cmp.Or(sized.show(), "auto") },
	}
}

// ratio is percentage, or off for 0.
func ratio(field *float64) value {
	some := percentage(field)
	return value{
		set: func(s string) error {
			if s == "off" {
				*field = 0
				return nil
			}
			if err := some.set(s); err != nil {
				return mustBe("off or a share such as 1%", s)
			}
			return nil
		},
		show: func() string {
			if *field == 0 {
				return "off"
			}
			return some.show()
		},
	}
}

// percentage is a ratio above 0, written as a percentage.
func percentage(field *float64) value {
	return value{
		set: func(s string) error {
			digits, isPercentage := strings.CutSuffix(s, "%")
			n, err := strconv.ParseFloat(digits, 64)
			if err != nil || !isPercentage || !(n > 0 && n <= 100) {
				return mustBe("a share such as 20%", s)
			}
			*field = n / 100
			return nil
		},
		show: func() string { return strconv.FormatFloat(*field*100, 'g', -1, 64) + "%" },
	}
}

// duration is a duration in Go's syntax.
func duration(field *time.Duration, from, to time.Duration) value {
	return value{
		set: func(s string) error {
			d, err := time.ParseDuration(s)
			if err != nil || d < from || d > to {
				return mustBe(fmt.Sprintf("a duration from %s to %s, for example 100ms", from, to), s)
			}
			*field = d
			return nil
		},
		show: func() string { return field.String() },
	}
}

// age is a duration in the syntax of policies, which allows days.
func age(field *time.Duration) value {
	return value{
		set: func(s string) error {
			d, err := rules.ParseDuration(s)
			if err != nil || d < time.Minute {
				return mustBe("a duration of a minute or more, for example 30d", s)
			}
			*field = d
			return nil
		},
		show: func() string { return rules.FormatDuration(*field) },
	}
}

// parsed is a field whose type has a parser. An error is that of the parser.
func parsed[T fmt.Stringer](field *T, parse func(string) (T, error)) value {
	return value{
		set:  func(s string) (err error) { *field, err = parse(s); return err },
		show: func() string { return (*field).String() },
	}
}

// headerName is the name of a header, "" for none.
func headerName(field *string) value {
	return value{
		set: func(s string) error {
			if s != "" {
				if _, err := conditions.ParseAttribute("header:" + s); err != nil {
					return fmt.Errorf("must be the name of a header that the proxy sets, for example X-JA4, got %q", s)
				}
			}
			*field = s
			return nil
		},
		show: func() string { return *field },
	}
}

// list is a comma-separated list of texts.
func list(field *[]string) value {
	return value{
		set: func(s string) error {
			*field = nil
			for part := range strings.SplitSeq(s, ",") {
				if part = strings.TrimSpace(part); part != "" {
					*field = append(*field, part)
				}
			}
			return nil
		},
		show: func() string { return strings.Join(*field, ", ") },
	}
}

// passwordUsers is a comma-separated list of names, or all for nil.
func passwordUsers(field *[]string) value {
	some := list(field)
	return value{
		set: func(s string) error {
			if s == "all" {
				*field = nil
				return nil
			}
			if err := some.set(s); err != nil || len(*field) == 0 {
				return mustBe("all, or names with commas between", s)
			}
			return nil
		},
		show: func() string {
			if *field == nil {
				return "all"
			}
			return some.show()
		},
	}
}

// schedules are the schedules of jobs by name.
func schedules(field *map[string]string) value {
	return value{
		set: func(s string) error {
			*field = map[string]string{}
			for part := range strings.SplitSeq(s, ";") {
				if part = strings.TrimSpace(part); part == "" {
					continue
				}
				name, schedule, found := strings.Cut(part, "=")
				if !found {
					return mustBe("name=schedule, for example daily-report=0 6 * * *", part)
				}
				(*field)[strings.TrimSpace(name)] = strings.TrimSpace(schedule)
			}
			return nil
		},
		show: func() string {
			var parts []string
			for _, name := range slices.Sorted(maps.Keys(*field)) {
				parts = append(parts, name+"="+(*field)[name])
			}
			return strings.Join(parts, "; ")
		},
	}
}

// hidden is shown in place of a secret.
const hidden = "set, not shown"

// redact hides the password in a URL, also in its query.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return hidden
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") {
			query.Set(name, "xxxxx")
		}
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}

// crawlerOperators is a comma-separated list of operators of search engines.
func crawlerOperators(field *[]bots.Operator) value {
	return value{
		set: func(s string) (err error) { *field, err = bots.ParseOperators(s); return err },
		show: func() string {
			var names []string
			for _, o := range *field {
				names = append(names, o.Name)
			}
			return strings.Join(names, ",")
		},
	}
}

// settingsFile is the path of a settings file, as a koanf.Provider.
type settingsFile string

// ReadBytes implements koanf.Provider.
func (path settingsFile) ReadBytes() ([]byte, error) {
	return wholefile.Read(string(path), wholefile.MaxText)
}

// Read implements koanf.Provider.
func (settingsFile) Read() (map[string]any, error) { return nil, errors.ErrUnsupported }

// settingsParser reads a settings file. Numbers and dates keep their spelling: a password of
// digits would be rounded otherwise, and the node name 007 would be 7.
type settingsParser struct{}

// Unmarshal implements koanf.Parser. A second document in the file is an error, since what it
// sets would be ignored.
func (settingsParser) Unmarshal(text []byte) (map[string]any, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var file, second yaml.Node
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, fmt.Errorf("line %d: a second document begins; write all settings into one", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(file.Content) > 0 && file.Content[0].Kind != yaml.MappingNode && file.Content[0].ShortTag() != "!!null" {
		return nil, fmt.Errorf("line %d: settings are lines of a name, a colon and a value, for example listen: 127.0.0.1:8080", file.Content[0].Line)
	}
	keepSpelling(&file)
	var values map[string]any
	err := file.Decode(&values)
	return values, err
}

// Marshal implements koanf.Parser.
func (settingsParser) Marshal(values map[string]any) ([]byte, error) { return yaml.Marshal(values) }

func keepSpelling(n *yaml.Node) {
	switch n.ShortTag() {
	case "!!int", "!!float", "!!timestamp":
		n.Tag = "!!str"
	}
	for _, inner := range n.Content {
		keepSpelling(inner)
	}
}

// settingText converts a YAML value to the syntax of flags: a sequence becomes a
// comma-separated list.
func settingText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = fmt.Sprint(part)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value)
}
