package offences_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

var attackStart = time.Date(2026, time.March, 2, 10, 0, 0, 0, time.UTC)

// intervals returns one interval for each number of limited checks; each also has 60 allowed
// checks.
func intervals(step time.Duration, limited ...int64) []offences.Interval {
	all := make([]offences.Interval, len(limited))
	for i, n := range limited {
		all[i] = offences.Interval{At: attackStart.Add(time.Duration(i) * step), Allowed: 60, Limited: n, Seconds: step.Seconds()}
	}
	return all
}

func TestDetectAttackComparesWithTheBaseline(t *testing.T) {
	const perHour = 3600 // one refusal a second
	for name, c := range map[string]struct {
		minutes, hours []int64
		since          int // the minute in which it began, -1 for no attack
		hasBaseline    bool
	}{
		"nothing is refused":                  {[]int64{0, 0, 0, 0}, []int64{0, 0}, -1, true},
		"as much as the baseline":             {[]int64{60, 60, 60, 60}, []int64{perHour, perHour, perHour}, -1, true},
		"three times the baseline":            {[]int64{60, 60, 180, 180}, []int64{perHour, perHour, perHour}, 2, true},
		"a little less than three times":      {[]int64{60, 60, 60, 179}, []int64{perHour, perHour, perHour}, -1, true},
		"less than half a request a second":   {[]int64{0, 0, 0, 29}, []int64{0, 0}, -1, true},
		"half a request a second":             {[]int64{0, 0, 0, 30}, []int64{0, 0}, 3, true},
		"without a baseline":                  {[]int64{0, 600, 600, 600}, []int64{600}, 1, false},
		"two quiet minutes do not end it":     {[]int64{0, 600, 0, 0, 600}, []int64{0, 0}, 1, true},
		"three quiet minutes do":              {[]int64{600, 0, 0, 0, 600}, []int64{0, 0}, 4, true},
		"over by now":                         {[]int64{600, 600, 600, 0}, []int64{0, 0}, -1, true},
		"an hour under attack is no baseline": {[]int64{600, 600}, []int64{0, 36_000}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := offences.DetectAttack(intervals(time.Minute, c.minutes...), intervals(time.Hour, c.hours...), nil)
			if a.HasBaseline != c.hasBaseline {
				t.Errorf("has a baseline: %v, want %v", a.HasBaseline, c.hasBaseline)
			}
			want := time.Time{}
			if c.since >= 0 {
				want = attackStart.Add(time.Duration(c.since) * time.Minute)
			}
			if !a.Since.Equal(want) || a.IsActive() != (c.since >= 0) {
				t.Errorf("began at %v, want %v", a.Since, want)
			}
		})
	}
	if a := offences.DetectAttack(nil, nil, nil); a.IsActive() || a.HasBaseline {
		t.Errorf("DetectAttack without traffic: got %+v, want no attack", a)
	}
}

func TestSourceOfAnAttackIsTheRangeOrKeyWithMostOffences(t *testing.T) {
	spread := func(format string, n int, count int64) []offences.Ranked {
		var rows []offences.Ranked
		for i := range n {
			rows = append(rows, offences.Ranked{Key: fmt.Sprintf(format, i+1), Offences: count})
		}
		return rows
	}
	for name, c := range map[string]struct {
		rows    []offences.Ranked
		total   int64
		pattern string // "" for none
		keys    int
		ratio   float64
	}{
		"no offences":                                {nil, 0, "", 0, 0},
		"one key with a third":                       {append(spread("token:a%d", 1, 40), spread("token:b%d", 8, 10)...), 120, "token:a1", 0, 1.0 / 3},
		"one key with less":                          {append(spread("token:a%d", 1, 39), spread("token:b%d", 9, 9)...), 120, "", 0, 0},
		"a range with half":                          {append(spread("ip:203.0.113.%d", 3, 20), spread("token:b%d", 6, 10)...), 120, "ip:203.0.113.0/24", 3, 0.5},
		"two addresses are no range":                 {append(spread("ip:203.0.113.%d", 2, 35), spread("token:b%d", 5, 10)...), 120, "", 0, 0},
		"an IPv6 range is a /48":                     {spread("ip:2001:db8:7:%d::/64", 4, 10), 40, "ip:2001:db8:7::/48", 4, 1},
		"many ranges, none with half":                {append(append(spread("ip:203.0.113.%d", 4, 10), spread("ip:198.51.100.%d", 4, 10)...), spread("ip:192.0.2.%d", 4, 10)...), 120, "", 0, 0},
		"a range before a heavier key":               {append(spread("token:a%d", 1, 50), spread("ip:203.0.113.%d", 5, 12)...), 110, "ip:203.0.113.0/24", 5, 60.0 / 110},
		"an account is attacked":                     {append(spread("account:a%d", 1, 100), spread("ip:203.0.113.%d", 1, 20)...), 120, "", 0, 0},
		"an account and the address that attacks it": {append(spread("account:a%d", 1, 70), spread("ip:203.0.113.%d", 1, 50)...), 120, "ip:203.0.113.1", 0, 50.0 / 120},
		"a network that is counted":                  {append(spread("net:203.0.%d.0/24", 1, 100), spread("ip:203.0.1.%d", 2, 10)...), 120, "ip:203.0.1.0/24", 0, 100.0 / 120},
		"a network and its addresses":                {append(spread("net:203.0.%d.0/24", 1, 60), spread("ip:203.0.1.%d", 6, 10)...), 120, "ip:203.0.1.0/24", 6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := offences.FindAttackSource(c.rows, c.total, func(k keys.Key) bool { return k.Kind() == "account" || k.Kind() == "net" })
			switch {
			case s == nil && c.pattern == "":
			case s == nil || s.Pattern.String() != c.pattern || s.Keys != c.keys || s.Ratio != c.ratio:
				t.Errorf("got %+v, want %s with %d keys and %v", s, c.pattern, c.keys, c.ratio)
			}
		})
	}
}

func TestIntervalThatHasJustBegunIsMergedIntoThePreviousOne(t *testing.T) {
	point := func(after time.Duration, allowed int64) offences.TrafficPoint {
		return offences.TrafficPoint{At: attackStart.Add(after), Counts: offences.Counts{Allowed: allowed}}
	}
	traffic := []offences.TrafficPoint{point(0, 60), point(time.Minute, 120), point(2*time.Minute, 5), point(-time.Minute, 1000)}
	all := offences.Intervals(traffic, attackStart, attackStart.Add(2*time.Minute+10*time.Second), time.Minute)
	if len(all) != 2 || all[0].Allowed != 60 || all[1].Allowed != 125 || all[1].Seconds != 70 {
		t.Errorf("got %+v", all)
	}
	if sum := offences.Sum(all); sum.Allowed != 185 || sum.Seconds != 130 {
		t.Errorf("the sum is %+v", sum)
	}
}

func TestCountedNetworkIsTheNetworkOfAFurtherKey(t *testing.T) {
	for key, want := range map[string]string{
		"net:203.0.113.0/24": "203.0.113.0/24", "net:2001:db8::/48": "2001:db8::/48",
		"ip:203.0.113.0/24": "", "net:203.0.113.1": "", "net:": "", "network:203.0.113.0/24": "", "": "",
	} {
		got, is := offences.CountedNetwork(key)
		if is != (want != "") || is && got.String() != want {
			t.Errorf("%q: got %s, %t", key, got, is)
		}
	}
}
