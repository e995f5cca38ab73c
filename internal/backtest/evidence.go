package backtest

import (
	"cmp"
	"io"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/stint-dev/stint/internal/rules"
)

// EvidenceCount is what one item of evidence of a policy has found.
type EvidenceCount struct {
	Policy   string `json:"policy"`
	Evidence string `json:"evidence"`
	Points   int    `json:"points"` // below 0 for those that take points back
	Requests int64  `json:"requests"`
	Keys     int64  `json:"keys"`         // whose requests met it
	Refused  int64  `json:"refused_keys"` // those of Keys of which a request was refused, for whatever reason
}

// foundEvidence is an EvidenceCount while requests come.
type foundEvidence struct {
	policy   string
	requests int64
	keys     map[string]bool
}

// countEvidence counts a request that met an item.
func (t *trial) countEvidence(c rules.Charge, key string) {
	found := t.evidence[c.Item]
	if found == nil {
		found = &foundEvidence{policy: c.Policy.Name, keys: map[string]bool{}}
		t.evidence[c.Item] = found
	}
	found.requests++
	found.keys[key] = true
}

// evidenceCounts returns what was found, that of the most refused keys first.
func (t *trial) evidenceCounts(isRefused func(key string) bool) []EvidenceCount {
	var all []EvidenceCount
	for item, found := range t.evidence {
		count := EvidenceCount{Policy: found.policy, Evidence: item.Label(), Points: item.Points, Requests: found.requests, Keys: int64(len(found.keys))}
		for key := range found.keys {
			if isRefused(key) {
				count.Refused++
			}
		}
		all = append(all, count)
	}
	slices.SortFunc(all, func(a, b EvidenceCount) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Keys, a.Keys), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Evidence, b.Evidence))
	})
	return all
}

func writeEvidence(out io.Writer, o TextOptions, counts []EvidenceCount, title string) {
	if len(counts) == 0 {
		return
	}
	t := table{columns: []column{{title: title, wide: true}, {title: "POINTS"}, {title: "REQUESTS"}, {title: "KEYS"}, {title: "REFUSED KEYS"}}}
	for _, c := range counts {
		t.add(c.name(), humanize.Comma(int64(c.Points)), humanize.Comma(c.Requests), humanize.Comma(c.Keys), humanize.Comma(c.Refused))
	}
	t.write(out, o.Width)
}

func (c *EvidenceCount) name() string { return printable(c.Policy + ": " + c.Evidence) }
