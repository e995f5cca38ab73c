package adminui

import "context"

// Part is one thing that a node stands on, as the overview's strip shows it.
type Part struct {
	Name string // "Node a", "Redis", "Postgres", "Jobs"
	// Trouble says in a word or two what is wrong: "slow", "unreachable"; ""
	// for nothing.
	Trouble string
	// Text says how it does, and where there is trouble what still works:
	// "Counts arrive 6 s late. Checks go on as usual."
	Text string
}

// health returns the parts of the strip.
func (h *overviewHandler) health(ctx context.Context) []Part {
	if h.parts != nil {
		return h.parts(ctx)
	}
	parts := []Part{{Name: "Node " + h.node, Text: "answers checks"}}
	if h.ready == nil {
		return parts
	}
	for _, p := range h.ready(ctx).Parts {
		part := Part{Name: capitalName(p.Name), Text: p.Detail}
		if !p.OK {
			part.Trouble = "fails"
		}
		parts = append(parts, part)
	}
	return parts
}

var partTitles = map[string]string{"log": "Timestamp log", "database": "Database", "policies": "Policies", "listeners": "Listeners", "eviction": "Eviction"}

func capitalName(name string) string {
	if title, known := partTitles[name]; known {
		return title
	}
	return name
}
