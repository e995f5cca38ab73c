package firewall

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// createdBy is the comment of the table and the sets that Stint created.
const createdBy = "created by Stint"

// The names of the sets.
const (
	setIPv4 = "stint_ipv4"
	setIPv6 = "stint_ipv6"
)

// Hooks are the places in the kernel where packets may be refused.
var Hooks = []string{"input", "forward", "prerouting"}

// Layout says which objects of nftables hold and refuse the addresses.
type Layout struct {
	Table    string // of the family inet
	Chain    string
	Hook     string // one of Hooks
	Priority int    // of the chain; chains of lower priority come first
	Reject   bool   // answer refused packets with an ICMP error instead of dropping them
	SetsOnly bool   // create no chain
}

var nameOfObject = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// Validate returns what is wrong with l.
func (l *Layout) Validate() error {
	switch {
	case !nameOfObject.MatchString(l.Table) || !nameOfObject.MatchString(l.Chain):
		return errors.New("names of tables and chains begin with a letter and contain only letters, digits, dots, hyphens and underscores")
	case !slices.Contains(Hooks, l.Hook):
		return fmt.Errorf("the hook %q is unknown; use %s", l.Hook, strings.Join(Hooks, ", "))
	}
	return nil
}

// structure returns the commands that create the table, the sets and the chain, whatever
// of them exists. The elements of the sets stay.
func (l *Layout) structure() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("add table inet %s { comment %q; }", l.Table, createdBy)
	line("add set inet %s %s { type ipv4_addr; flags interval, timeout; comment %q; }", l.Table, setIPv4, createdBy)
	line("add set inet %s %s { type ipv6_addr; flags interval, timeout; comment %q; }", l.Table, setIPv6, createdBy)
	if l.SetsOnly {
		return b.String()
	}
	verdict := "drop"
	if l.Reject {
		verdict = "reject with icmpx admin-prohibited"
	}
	b.WriteString(l.deleteChain())
	line("add chain inet %s %s { type filter hook %s priority %d; policy accept; }", l.Table, l.Chain, l.Hook, l.Priority)
	line(`add rule inet %s %s iif "lo" accept`, l.Table, l.Chain)
	// Without these a block of a network that routers of this link use cuts it off.
	line("add rule inet %s %s icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept", l.Table, l.Chain)
	line("add rule inet %s %s ip saddr @%s counter %s", l.Table, l.Chain, setIPv4, verdict)
	line("add rule inet %s %s ip6 saddr @%s counter %s", l.Table, l.Chain, setIPv6, verdict)
	return b.String()
}

// rules is the number of rules in the chain.
const rules = 4

// deleteChain returns the commands that delete the chain, if there is one.
func (l *Layout) deleteChain() string {
	return fmt.Sprintf("add chain inet %[1]s %[2]s\nflush chain inet %[1]s %[2]s\ndelete chain inet %[1]s %[2]s\n", l.Table, l.Chain)
}

// maxDeletes is how many ranges of a set are deleted one by one. For each nft goes through
// the whole set in its own memory: of 120,000 ranges, 100 take longer than to write them all.
const maxDeletes = 20

// change returns the commands that remove and add ranges, after which the sets contain
// wanted. An element's expiry cannot be changed: it is removed and added in one transaction.
func (l *Layout) change(remove, add, wanted []Range, now time.Time) string {
	var b strings.Builder
	for _, set := range []string{setIPv4, setIPv6} {
		removed, added := ofSet(set, remove), ofSet(set, add)
		if len(removed) > maxDeletes {
			fmt.Fprintf(&b, "flush set inet %s %s\n", l.Table, set)
			removed, added = nil, ofSet(set, wanted)
		}
		l.elements(&b, "delete", set, removed, time.Time{})
		l.elements(&b, "add", set, added, now)
	}
	return b.String()
}

// ofSet returns those of ordered ranges that belong into a set.
func ofSet(set string, ranges []Range) []Range {
	firstIPv6 := slices.IndexFunc(ranges, func(r Range) bool { return r.First.Is6() })
	if firstIPv6 < 0 {
		firstIPv6 = len(ranges)
	}
	if set == setIPv6 {
		return ranges[firstIPv6:]
	}
	return ranges[:firstIPv6]
}

// elements writes a command for ranges of one set, if there are any. A zero now leaves out
// the timeouts.
func (l *Layout) elements(b *strings.Builder, verb, set string, ranges []Range, now time.Time) {
	separator := fmt.Sprintf("%s element inet %s %s { ", verb, l.Table, set)
	for _, r := range ranges {
		b.WriteString(separator)
		b.WriteString(r.First.String())
		if r.Last != r.First {
			b.WriteString("-" + r.Last.String())
		}
		if !now.IsZero() && !r.Expires.IsZero() {
			b.WriteString(" timeout " + timeout(r.Expires.Sub(now)))
		}
		separator = ",\n\t"
	}
	if len(ranges) > 0 {
		b.WriteString(" }\n")
	}
}

// timeout formats a duration for nft, which accepts at most 8 digits in a row. A timeout
// of 0 would be permanent, so it is at least 1ms.
func timeout(d time.Duration) string {
	ms := max(1, d.Milliseconds())
	days, ms := ms/86_400_000, ms%86_400_000
	return fmt.Sprintf("%dd%ds%dms", days, ms/1000, ms%1000)
}

// removal returns the commands that remove what Stint created of what there is: the
// chain, the sets, and the table if nothing else is in it. Sets that somebody else
// declared are emptied.
func (l *Layout) removal(s *state) string {
	if !s.table {
		return ""
	}
	var b strings.Builder
	if s.chain && !l.SetsOnly {
		b.WriteString(l.deleteChain())
	}
	deletes := true
	for _, set := range []string{setIPv4, setIPv6} {
		switch created, exists := s.sets[set]; {
		case created:
			fmt.Fprintf(&b, "delete set inet %s %s\n", l.Table, set)
		case exists:
			deletes = false
			fmt.Fprintf(&b, "flush set inet %s %s\n", l.Table, set)
		}
	}
	if s.tableCreated && deletes && s.others == 0 && !(s.chain && l.SetsOnly) {
		fmt.Fprintf(&b, "delete table inet %s\n", l.Table)
	}
	return b.String()
}
