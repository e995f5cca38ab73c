package notify

import (
	"cmp"
	"slices"
	"time"
)

// urgency orders the kinds, the most urgent first. Those before the first that
// is not urgent are sent apart from the others.
var urgency = []Kind{Outage, RedisEviction, EscalationPaused, Recovery, JobFailed, Proposal, AutomaticBlock, Report, Test}

// Urgent reports whether somebody may have to act at once.
func (k Kind) Urgent() bool {
	at := slices.Index(urgency, k)
	return at >= 0 && at < slices.Index(urgency, Proposal)
}

func (k Kind) groupWait() time.Duration {
	if k.Urgent() {
		return UrgentWait
	}
	return GroupWait
}

func (k Kind) groupInterval() time.Duration {
	if k.Urgent() {
		return UrgentInterval
	}
	return GroupInterval
}

// page returns the path of the page that shows what happened.
func (k Kind) page() string {
	switch k {
	case AutomaticBlock:
		return "/blocks"
	case Proposal, EscalationPaused:
		return "/offenders"
	case Report:
		return "/reports"
	case JobFailed:
		return "/jobs"
	}
	return "/"
}

// lane is what one channel sends in one order: what is urgent, or what is not.
type lane struct {
	Channel
	urgent bool
}

func (l lane) lease() string {
	if l.urgent {
		return "notify:" + l.Name() + ":urgent"
	}
	return "notify:" + l.Name()
}

// groups returns the lane's deliveries as messages: by kind, the reports each
// apart. What was tried before goes apart from what is new, so that a failing
// message holds nothing back and grows no larger. What is new goes first, the
// more urgent before the less, and then what came first.
func (l lane) groups(due []Due) [][]Due {
	type mark struct {
		kind     Kind
		attempts int
		id       int64
	}
	var groups [][]Due
	at := map[mark]int{}
	for _, item := range due {
		if item.Kind.Urgent() != l.urgent {
			continue
		}
		m := mark{kind: item.Kind, attempts: item.Attempts}
		if item.Kind == Report {
			m.id = item.ID
		}
		i, known := at[m]
		if !known {
			i = len(groups)
			at[m] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], item)
	}
	slices.SortStableFunc(groups, func(a, b []Due) int {
		return cmp.Or(cmp.Compare(min(a[0].Attempts, 1), min(b[0].Attempts, 1)),
			cmp.Compare(slices.Index(urgency, a[0].Kind), slices.Index(urgency, b[0].Kind)))
	})
	return groups
}
