package backtest

import (
	"net/netip"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/offences"
)

// RangeScore is about the ranges that the service would have proposed to block by its
// default settings, as if no proposal were accepted. A client is covered if its range was
// ever proposed.
type RangeScore struct {
	Proposed         int64 `json:"proposed"`
	Attackers        int64 `json:"attackers"` // of all kinds
	AttackersCovered int64 `json:"attackers_covered"`
	Benign           int64 `json:"benign"` // clients that never attack
	BenignCovered    int64 `json:"benign_covered"`
}

// addressRange is what happened lately in a /24 or a /48.
type addressRange struct {
	isProposed bool
	// minutes are the checks and the refusals of the minutes of the window, by their
	// numbers modulo its length.
	minutes []minuteOfRange
	// offended are the times of the last offences of each member, the oldest first, as
	// many as a member must have.
	offended map[string][]time.Time
	// lately is when the range itself last offended, as a further key of its members.
	lately time.Time
}

type minuteOfRange struct{ minute, checked, refused int64 }

// rangeOf returns the range that an address is proposed with, the zero Prefix for other
// keys.
func rangeOf(key string) netip.Prefix {
	text, isAddress := strings.CutPrefix(key, "ip:")
	if !isAddress {
		return netip.Prefix{}
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}
		}
		network = netip.PrefixFrom(address, address.BitLen())
	}
	bits := 24
	if network.Addr().Is6() {
		bits = 48
	}
	if network.Bits() < bits {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(network.Addr(), bits).Masked()
}

// count counts one check of a member of the range, or one report that a policy had no room
// for, which counts as a refused check.
func (r *addressRange) count(member string, at time.Time, isRefused bool) {
	if r.isProposed {
		return
	}
	s := offences.DefaultProposalSettings
	length := int64(s.Window / time.Minute)
	if r.minutes == nil {
		r.minutes, r.offended = make([]minuteOfRange, length), map[string][]time.Time{}
	}
	minute := at.Unix() / 60
	m := &r.minutes[(minute%length+length)%length]
	if m.minute != minute {
		*m = minuteOfRange{minute: minute}
	}
	m.checked++
	if isRefused {
		m.refused++
		r.offended[member] = append(r.offended[member], at)
		if more := len(r.offended[member]) - s.MinOffences; more > 0 {
			r.offended[member] = r.offended[member][more:]
		}
	}
	if !isRefused && r.lately != at {
		return
	}

	oldest := at.Add(-s.Window)
	activity := offences.RangeActivity{HasOffended: !r.lately.IsZero() && !r.lately.Before(oldest)}
	for member, times := range r.offended {
		switch {
		case times[len(times)-1].Before(oldest):
			delete(r.offended, member)
		case len(times) == s.MinOffences && !times[0].Before(oldest):
			activity.Frequent++
			activity.Refused++
		default:
			activity.Refused++
		}
	}
	for _, m := range r.minutes {
		if m.minute > minute-length {
			activity.Checks, activity.RefusedChecks = activity.Checks+m.checked, activity.RefusedChecks+m.refused
		}
	}
	if r.isProposed = s.Propose(activity); r.isProposed {
		r.minutes, r.offended = nil, nil
	}
}

// countOffending says which networks offended as further keys at the request that is
// counted next.
func (s *Scorer) countOffending(networks []netip.Prefix, at time.Time) {
	for _, network := range networks {
		if within := rangeOf("ip:" + network.String()); within == network {
			s.rangeAt(within).lately = at
		}
	}
}

func (s *Scorer) rangeAt(within netip.Prefix) *addressRange {
	r := s.ranges[within]
	if r == nil {
		r = &addressRange{}
		s.ranges[within] = r
	}
	return r
}

// countReport counts a report of a canonical key that a policy had no room for, after the
// request that it is about.
func (s *Scorer) countReport(key string, at time.Time) {
	s.countRange(key, s.client(key), at, true)
}

// countRange counts one check, or such a report, of a client in its range.
func (s *Scorer) countRange(key string, c *client, at time.Time, isRefused bool) {
	if !c.within.IsValid() {
		return
	}
	s.rangeAt(c.within).count(key, at, isRefused)
}

// isInRange reports whether the range of a client would have been proposed.
func (s *Scorer) isInRange(c *client) bool {
	return c.within.IsValid() && s.ranges[c.within].isProposed
}

// rangeScore returns nil if no client has an address.
func (s *Scorer) rangeScore() *RangeScore {
	if len(s.ranges) == 0 {
		return nil
	}
	score := &RangeScore{}
	for _, r := range s.ranges {
		if r.isProposed {
			score.Proposed++
		}
	}
	for _, c := range s.clients {
		covered := int64(0)
		if s.isInRange(c) {
			covered = 1
		}
		if c.requests > 0 {
			score.Attackers++
			score.AttackersCovered += covered
		} else if c.attack.IsZero() {
			score.Benign++
			score.BenignCovered += covered
		}
	}
	return score
}
