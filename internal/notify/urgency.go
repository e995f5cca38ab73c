package notify

import (
	"cmp"
	"slices"
	"time"
)

// urgency orders the kinds, the most urgent first. The urgent kinds are sent separately from
// the others.
var urgency = []Kind{Outage, RedisEviction, AttackBegan, AttackSource, EscalationPaused, Recovery, AttackEnded, JobFailed, Proposal, AutomaticBlock, Report, Test}

// Urgent reports whether somebody may have to act immediately.
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

// page returns the path of the page about a kind.
func (k Kind) page() string {
	switch k {
	case AttackBegan, AttackSource, AttackEnded:
		return "/attacks"
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

// lane is the queue of a channel for urgent kinds, or the one for the others.
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

// groups groups the lane's deliveries into messages by kind; each report is a message of its
// own. Retries are not grouped with new deliveries, so that a failing message delays nothing
// and does not grow. New deliveries come first, then more urgent kinds, then older ones.
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
