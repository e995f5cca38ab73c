package adminui

import (
	"github.com/stint-dev/stint/internal/offences"
)

// stateFilter is a quick filter: a state, and the number of keys with it.
type stateFilter struct {
	Name    string
	Count   int64
	Address string
	Current bool
}

// States returns the quick filters.
func (p *offendersPageData) States() []stateFilter {
	of := p.Report.States
	all := []stateFilter{
		{Name: "All", Count: of[offences.TriageOpen] + of[offences.TriageBlocked] + of[offences.TriageExempt]},
		{Name: "Open", Count: of[offences.TriageOpen]}, {Name: "Blocked", Count: of[offences.TriageBlocked]}, {Name: "Exempt", Count: of[offences.TriageExempt]},
	}
	for i, state := range []offences.Triage{"", offences.TriageOpen, offences.TriageBlocked, offences.TriageExempt} {
		all[i].Address, all[i].Current = p.With("state", string(state)), p.Query.Get("state") == string(state)
	}
	return all
}
