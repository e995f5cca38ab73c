package backtest

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Score is how well a plan separates attackers from benign clients, by their labels.
type Score struct {
	Attackers []AttackerScore `json:"attackers"` // by label
	Benign    []BenignScore   `json:"benign"`    // by label
	// Ranges is nil if no client has an address.
	Ranges *RangeScore `json:"ranges,omitzero"`
	// Absent are the keys of the truth without a request.
	Absent int64 `json:"absent"`
}

// AttackerScore is about the attackers of one kind. Requests before the attack of a key
// began are the requests of a benign client with the label beforeAttack.
type AttackerScore struct {
	Label     string `json:"label"`
	Attackers int64  `json:"attackers"`
	Caught    int64  `json:"caught"`   // of which a request was refused
	Requests  int64  `json:"requests"` // since the attack began
	Served    int64  `json:"served"`   // of Requests
	// Of those caught: the requests served and the time since the attack began, before
	// the first refusal. 0 if none was caught.
	ServedMedian int64   `json:"served_until_caught_median"`
	ServedMax    int64   `json:"served_until_caught_max"`
	TimeMedian   float64 `json:"seconds_until_caught_median"`
	TimeMax      float64 `json:"seconds_until_caught_max"`
	// InRanges are the attackers in ranges that would have been proposed; see RangeScore.
	InRanges int64 `json:"in_proposed_ranges"`
}

// BenignScore is about the benign clients of one kind.
type BenignScore struct {
	Label          string  `json:"label"`
	Clients        int64   `json:"clients"`
	ClientsRefused int64   `json:"clients_refused"` // at least once
	Requests       int64   `json:"requests"`
	Refused        int64   `json:"refused"`
	Ratio          float64 `json:"refused_ratio"` // Refused of Requests
	// InRanges are the clients in ranges that would have been proposed, of those that never
	// attack; see RangeScore.
	InRanges int64 `json:"in_proposed_ranges"`
}

// The labels of benign clients whose own label is one of attackers.
const (
	beforeAttack = "before an attack"
	neverAttacks = "never attacking"
)

// Scorer compares decisions with a truth: of a backtest, or of any other system.
type Scorer struct {
	truth   *Truth
	clients map[string]*client
	ranges  map[netip.Prefix]*addressRange
}

// client is what was decided about one key.
type client struct {
	truth
	isListed                 bool
	benign, benignRefused    int64
	requests, served, before int64 // before: served until caught
	isCaught                 bool
	caught                   time.Duration
	within                   netip.Prefix // its range, the zero Prefix without one
}

// NewScorer returns a Scorer without decisions.
func NewScorer(t *Truth) *Scorer {
	return &Scorer{truth: t, clients: map[string]*client{}, ranges: map[netip.Prefix]*addressRange{}}
}

// Count counts one request of a canonical key, in the order of the requests' times.
func (s *Scorer) Count(key string, at time.Time, isRefused bool) {
	c := s.client(key)
	s.countRange(key, c, at, isRefused)
	if c.attack.IsZero() || at.Before(c.attack) {
		c.benign++
		if isRefused {
			c.benignRefused++
		}
		return
	}
	c.requests++
	switch {
	case !isRefused:
		if c.served++; !c.isCaught {
			c.before++
		}
	case !c.isCaught:
		c.isCaught, c.caught = true, at.Sub(c.attack)
	}
}

// client returns what was decided about a key.
func (s *Scorer) client(key string) *client {
	c := s.clients[key]
	if c == nil {
		c = &client{within: rangeOf(key)}
		if c.truth, c.isListed = s.truth.keys[key]; !c.isListed {
			c.label = unlisted
		}
		s.clients[key] = c
	}
	return c
}

// Score returns the result so far.
func (s *Scorer) Score() *Score {
	score := &Score{Ranges: s.rangeScore()}
	attackers, benign := map[string][]*client{}, map[string]*BenignScore{}
	listed := 0
	for _, c := range s.clients {
		if c.isListed {
			listed++
		}
		if c.requests > 0 {
			attackers[c.label] = append(attackers[c.label], c)
		}
		if c.benign == 0 {
			continue
		}
		label := c.label
		switch {
		case !c.attack.IsZero():
			label = beforeAttack
		case s.truth.isAttackers(label):
			label = neverAttacks
		}
		b := benign[label]
		if b == nil {
			b = &BenignScore{Label: label}
			benign[label] = b
		}
		b.Clients++
		b.Requests += c.benign
		b.Refused += c.benignRefused
		if c.benignRefused > 0 {
			b.ClientsRefused++
		}
		if c.attack.IsZero() && s.isInRange(c) {
			b.InRanges++
		}
	}
	score.Absent = int64(len(s.truth.keys) - listed)
	for label, clients := range attackers {
		a := attackerScore(label, clients)
		for _, c := range clients {
			if s.isInRange(c) {
				a.InRanges++
			}
		}
		score.Attackers = append(score.Attackers, a)
	}
	for _, b := range benign {
		b.Ratio = float64(b.Refused) / float64(b.Requests)
		score.Benign = append(score.Benign, *b)
	}
	slices.SortFunc(score.Attackers, func(a, b AttackerScore) int { return cmp.Compare(a.Label, b.Label) })
	slices.SortFunc(score.Benign, func(a, b BenignScore) int { return cmp.Compare(a.Label, b.Label) })
	return score
}

func attackerScore(label string, clients []*client) AttackerScore {
	a := AttackerScore{Label: label, Attackers: int64(len(clients))}
	var served []int64
	var times []time.Duration
	for _, c := range clients {
		a.Requests += c.requests
		a.Served += c.served
		if c.isCaught {
			served, times = append(served, c.before), append(times, c.caught)
		}
	}
	if a.Caught = int64(len(served)); a.Caught == 0 {
		return a
	}
	slices.Sort(served)
	slices.Sort(times)
	// The upper one of two in the middle.
	a.ServedMedian, a.ServedMax = served[len(served)/2], served[len(served)-1]
	a.TimeMedian, a.TimeMax = times[len(times)/2].Seconds(), times[len(times)-1].Seconds()
	return a
}
