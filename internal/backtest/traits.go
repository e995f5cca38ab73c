package backtest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/escape"
)

// Trait is a value that requests had.
type Trait struct {
	Value    string `json:"value"`
	Requests int64  `json:"requests"`
}

// Traits are the most frequent values of the requests of a refused key, from the first refused one
// on, the most frequent first. Of a key with many values they are estimates, never too low.
type Traits struct {
	Agents   []Trait `json:"agents"`
	Paths    []Trait `json:"paths"` // with the method, without the query
	Statuses []Trait `json:"statuses"`
	// IsShared says that the key is probably an address of many people: requests with many agents, most
	// of which were served.
	IsShared bool `json:"is_shared,omitzero"`
}

const (
	// maxTraits is how many values of one kind are counted, shownTraits how many are reported.
	maxTraits   = 16
	shownTraits = 3
	// maxTrait is the longest value, in bytes.
	maxTrait = 120
	// A shared address has at least sharedAgents, each with sharedRequests.
	sharedAgents, sharedRequests = 8, 3
)

// request is what a request asked for.
type request struct{ method, path string }

// frequencies count the values of one kind. Where there is no room for another one, it takes over
// the place and the count of the rarest.
type frequencies[V comparable] []frequency[V]

type frequency[V comparable] struct {
	value V
	n     int64
}

func (f *frequencies[V]) add(value V) {
	all, rarest := *f, 0
	for i := range all {
		if all[i].value == value {
			all[i].n++
			return
		}
		if all[i].n < all[rarest].n {
			rarest = i
		}
	}
	if len(all) < maxTraits {
		*f = append(*f, frequency[V]{value, 1})
		return
	}
	all[rarest] = frequency[V]{value, all[rarest].n + 1}
}

// top returns the most frequent values as texts.
func (f frequencies[V]) top(text func(V) string) []Trait {
	var traits []Trait
	for _, each := range f {
		traits = append(traits, Trait{strings.ToValidUTF8(escape.Clip(text(each.value), maxTrait), "\uFFFD"), each.n}) // JSON takes nothing else
	}
	slices.SortFunc(traits, func(a, b Trait) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Value, b.Value))
	})
	return traits[:min(len(traits), shownTraits)]
}

// observed counts what a key asked for.
type observed struct {
	agents   frequencies[string]
	requests frequencies[request]
	statuses frequencies[int]
}

func (o *observed) add(r *accesslog.Record) {
	if r.Agent != "" {
		o.agents.add(r.Agent)
	}
	if path, _, _ := strings.Cut(r.Path, "?"); path != "" {
		o.requests.add(request{r.Method, path})
	}
	if r.Status > 0 {
		o.statuses.add(r.Status)
	}
}

func (o *observed) traits() Traits {
	return Traits{
		Agents:   o.agents.top(func(agent string) string { return agent }),
		Paths:    o.requests.top(func(r request) string { return strings.TrimSpace(r.method + " " + r.path) }),
		Statuses: o.statuses.top(strconv.Itoa),
		IsShared: o.isShared(),
	}
}

func (o *observed) isShared() bool {
	agents, served, all := 0, int64(0), int64(0)
	for _, each := range o.agents {
		if each.n >= sharedRequests {
			agents++
		}
	}
	for _, each := range o.statuses {
		if all += each.n; each.value < 400 {
			served += each.n
		}
	}
	return agents >= sharedAgents && 2*served > all
}

// Lines says for people what was asked for, in lines that are safe to print.
func (t Traits) Lines() []string {
	var lines []string
	for _, kind := range []struct {
		name string
		all  []Trait
	}{{"paths", t.Paths}, {"agents", t.Agents}, {"statuses", t.Statuses}} {
		if len(kind.all) > 0 {
			lines = append(lines, kind.name+": "+traitsText(kind.all))
		}
	}
	if t.IsShared {
		lines = append(lines, "probably an address that many people share: limit their accounts or sessions instead, or give it an exemption")
	}
	return lines
}

func traitsText(all []Trait) string {
	var texts []string
	for _, t := range all {
		texts = append(texts, fmt.Sprintf("%s (%s)", printable(t.Value), humanize.Comma(t.Requests)))
	}
	return strings.Join(texts, ", ")
}
