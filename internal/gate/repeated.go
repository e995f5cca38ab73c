package gate

// subject names the log that a decision is about.
type subject struct {
	policy    int64
	key       string // as it is counted: several addresses may be one key
	isFurther bool
}

// additionalSubject returns the log that an additional decision is about; false if there is none.
func (d *Decision) additionalSubject() (subject, bool) {
	p, derived := d.Policy, d.Derived
	if d.Shadow != nil {
		p, derived = d.Shadow.Policy, d.Shadow.Derived
	}
	switch {
	case p == nil:
		return subject{}, false
	case derived != nil:
		return subject{p.ID, derived.String(), true}, true
	}
	return subject{p.ID, d.Check.Key.String(), false}, true
}

// dropRepeated removes additional decisions about a log that another decision of the request is
// about. So a further key that several keys of the request derive counts once. So does a policy
// whose conditions are met by several checks of the same key, or that one of them names. Of
// several additional decisions about the same log, the first stays, with the largest cost of all.
// A shadow policy that several checks of the same key select stays with the check of the largest
// cost.
func dropRepeated(decisions []Decision) {
	dropRepeatedShadows(decisions)
	if !hasAdditional(decisions) {
		return
	}
	named := make(map[subject]bool, len(decisions))
	costs := map[subject]int{}
	for i := range decisions {
		d := &decisions[i]
		if d.Policy != nil {
			named[subject{d.Policy.ID, d.Check.Key.String(), false}] = true
		}
		if d.Shadow != nil {
			named[subject{d.Shadow.Policy.ID, d.Check.Key.String(), false}] = true
		}
		for j := range d.Additional {
			if about, found := d.Additional[j].additionalSubject(); found {
				costs[about] = max(costs[about], d.Additional[j].Check.Cost)
			}
		}
	}
	for i := range decisions {
		d := &decisions[i]
		kept := d.Additional[:0]
		for j := range d.Additional {
			a := &d.Additional[j]
			if about, found := a.additionalSubject(); found {
				if named[about] || costs[about] == 0 {
					continue
				}
				a.Check.Cost, costs[about] = costs[about], 0 // only the first stays
			}
			kept = append(kept, *a)
		}
		clear(d.Additional[len(kept):])
		d.Additional = kept
	}
}

func dropRepeatedShadows(decisions []Decision) {
	for i := range decisions {
		for j := range decisions[:i] {
			d, earlier := &decisions[i], &decisions[j]
			switch {
			case d.Shadow == nil || earlier.Shadow == nil || d.Shadow.Policy.ID != earlier.Shadow.Policy.ID || d.Check.Key.String() != earlier.Check.Key.String():
			case d.Check.Cost > earlier.Check.Cost:
				earlier.Shadow = nil
			default:
				d.Shadow = nil
			}
		}
	}
}

func hasAdditional(decisions []Decision) bool {
	for i := range decisions {
		if len(decisions[i].Additional) > 0 {
			return true
		}
	}
	return false
}
