package firewall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
)

// nftTimeout bounds one call of nft; a million elements take seconds.
const nftTimeout = 2 * time.Minute

// maxError is the maximum length of nft's text in an error, in bytes. nft repeats the
// command that failed, which may be long.
const maxError = 500

// nft runs the program nft. Its error contains what nft printed.
func nft(ctx context.Context, script string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	var out, problem bytes.Buffer
	c := exec.CommandContext(ctx, "nft", args...)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(script), &out, &problem
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.WaitDelay = time.Second
	err := c.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("the program nft is not installed; it is in the package nftables")
	}
	text := strings.Join(strings.Fields(problem.String()), " ")
	return nil, fmt.Errorf("nft: %w: %s", err, escape.Clip(text, maxError))
}

// run executes a script as one transaction: all of it or nothing.
func run(ctx context.Context, script string) error {
	_, err := nft(ctx, script, "-f", "-")
	return err
}

// state is what exists in the kernel of what a Layout describes.
type state struct {
	table        bool
	tableCreated bool // by Stint
	chain        bool
	sets         map[string]bool // the sets that exist, and whether Stint created them
	intact       bool            // the chain has its hook and its rules
	others       int             // objects in the table that are not of the layout
	ranges       []Range         // in the sets, in order
}

// object is one object of nft's JSON; the fields are set by its kind.
type object struct {
	Table *jsonTable `json:"table"`
	Set   *jsonSet   `json:"set"`
	Chain *jsonChain `json:"chain"`
	Rule  *jsonRule  `json:"rule"`
}

type jsonTable struct {
	Name string `json:"name"`
}

type jsonSet struct {
	Name    string           `json:"name"`
	Comment string           `json:"comment"`
	Elem    []jsontext.Value `json:"elem"`
}

type jsonChain struct {
	Name string `json:"name"`
	Hook string `json:"hook"`
	Prio int    `json:"prio"`
}

type jsonRule struct {
	Chain string `json:"chain"`
}

// read returns what exists of l. Expiries are the latest that they can be: nft prints
// whole seconds, rounded down.
func (l *Layout) read(ctx context.Context) (*state, error) {
	s := &state{sets: map[string]bool{}}
	tables, err := list(ctx, "-j", "list", "tables", "inet")
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(tables, func(o object) bool { return o.Table != nil && o.Table.Name == l.Table }) {
		return s, nil
	}
	text, err := nft(ctx, "", "-t", "list", "table", "inet", l.Table)
	if err != nil {
		return nil, err
	}
	// The JSON of nft 1.0 leaves out the comment of a table.
	s.table, s.tableCreated = true, strings.Contains(string(text), "\n\tcomment \""+createdBy+"\"\n")
	objects, err := list(ctx, "-t", "-j", "list", "table", "inet", l.Table)
	if err != nil {
		return nil, err
	}
	s.describe(l, objects)
	for set := range s.sets {
		objects, err := list(ctx, "-j", "list", "set", "inet", l.Table, set)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		for _, o := range objects {
			if o.Set == nil {
				continue
			}
			for _, element := range o.Set.Elem {
				r, err := parseElement(element, now)
				if err != nil {
					return nil, err
				}
				s.ranges = append(s.ranges, r)
			}
		}
	}
	slices.SortFunc(s.ranges, func(a, b Range) int { return a.First.Compare(b.First) })
	return s, nil
}

func list(ctx context.Context, args ...string) ([]object, error) {
	text, err := nft(ctx, "", args...)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Objects []object `json:"nftables"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("the output of nft cannot be read: %w", err)
	}
	return answer.Objects, nil
}

// describe fills in which objects exist.
func (s *state) describe(l *Layout, objects []object) {
	rulesFound := 0
	hasHook := false
	s.others = -2 // the table itself and nft's version
	for _, o := range objects {
		switch {
		case o.Set != nil && (o.Set.Name == setIPv4 || o.Set.Name == setIPv6):
			s.sets[o.Set.Name] = o.Set.Comment == createdBy
		case o.Chain != nil && o.Chain.Name == l.Chain:
			s.chain, hasHook = true, o.Chain.Hook == l.Hook && o.Chain.Prio == l.Priority
		case o.Rule != nil && o.Rule.Chain == l.Chain:
			rulesFound++
		default:
			s.others++
		}
	}
	s.intact = len(s.sets) == 2 && (l.SetsOnly || hasHook && rulesFound == rules)
}

// parseElement reads an element: an address, a prefix or a range, with or without a
// timeout.
func parseElement(text jsontext.Value, now time.Time) (Range, error) {
	var e struct {
		Elem *struct {
			Val     jsontext.Value `json:"val"`
			Expires *int64         `json:"expires"` // seconds
		} `json:"elem"`
		Prefix *struct {
			Addr netip.Addr `json:"addr"`
			Len  int        `json:"len"`
		} `json:"prefix"`
		Range *[2]netip.Addr `json:"range"`
	}
	var addr netip.Addr
	if text.Kind() == '"' {
		err := json.Unmarshal(text, &addr)
		return Range{First: addr, Last: addr}, err
	}
	err := json.Unmarshal(text, &e)
	switch {
	case err != nil:
		return Range{}, err
	case e.Elem != nil && e.Elem.Val.Kind() != 0:
		r, err := parseElement(e.Elem.Val, now)
		if e.Elem.Expires != nil {
			r.Expires = now.Add(time.Duration(*e.Elem.Expires+1) * time.Second)
		}
		return r, err
	case e.Prefix != nil && netip.PrefixFrom(e.Prefix.Addr, e.Prefix.Len).IsValid():
		return Range{First: e.Prefix.Addr, Last: lastOf(netip.PrefixFrom(e.Prefix.Addr, e.Prefix.Len))}, nil
	case e.Range != nil:
		return Range{First: e.Range[0], Last: e.Range[1]}, nil
	}
	return Range{}, fmt.Errorf("the output of nft contains an unknown element: %s", escape.Clip(string(text), maxError))
}
