package bots

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/atomicfile"
)

// keptHours is for how many hours Counts has its numbers.
const keptHours = 7*24 + 1

// Counts are how many requests of each bot came in each hour of the last week. They are bounded by the
// number of agents that are known. The zero value counts, and keeps nothing.
type Counts struct {
	// File keeps the counts over a restart; "" for none.
	File string

	mu    sync.Mutex
	hours map[int64]map[counted]*Numbers // by Unix hours
}

// counted is what is counted apart.
type counted struct{ bot, verified string }

// Numbers are numbers of requests.
type Numbers struct{ Requests, Refused int64 }

// Add counts a request.
func (c *Counts) Add(i Identity, at time.Time, isRefused bool) {
	if i.Agent == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.numbers(at.Unix()/3600, counted{i.Agent.name, i.Verified})
	n.Requests++
	if isRefused {
		n.Refused++
	}
}

// numbers returns what is counted in an hour. c.mu is held.
func (c *Counts) numbers(hour int64, of counted) *Numbers {
	in := c.hours[hour]
	if in == nil {
		if c.hours == nil {
			c.hours = map[int64]map[counted]*Numbers{}
		}
		in = map[counted]*Numbers{}
		c.hours[hour] = in
		for other := range c.hours {
			if other <= hour-keptHours {
				delete(c.hours, other)
			}
		}
	}
	if in[of] == nil {
		in[of] = &Numbers{}
	}
	return in[of]
}

// Seen are the requests of one bot.
type Seen struct {
	Agent    *Agent
	Verified string
	Numbers
}

// Since returns what came in the hours that end after an instant, those with most requests first.
func (c *Counts) Since(since time.Time) []Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := map[counted]Numbers{}
	for hour, in := range c.hours {
		if (hour+1)*3600 <= since.Unix() {
			continue
		}
		for of, n := range in {
			sum := sums[of]
			sums[of] = Numbers{sum.Requests + n.Requests, sum.Refused + n.Refused}
		}
	}
	var all []Seen
	for of, n := range sums {
		if a := FindAgent(of.bot); a != nil {
			all = append(all, Seen{a, of.verified, n})
		}
	}
	slices.SortFunc(all, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Agent.name, b.Agent.name), cmp.Compare(a.Verified, b.Verified))
	})
	return all
}

// savedCount is a row of the file.
type savedCount struct {
	Hour              int64
	Bot, Verified     string
	Requests, Refused int64
}

// Load adds what the file has. A file that is not there has nothing.
func (c *Counts) Load() error {
	text, err := os.ReadFile(c.File)
	if os.IsNotExist(err) || c.File == "" {
		return nil
	}
	var all []savedCount
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range all {
		n := c.numbers(s.Hour, counted{s.Bot, s.Verified})
		n.Requests, n.Refused = n.Requests+s.Requests, n.Refused+s.Refused
	}
	return nil
}

// Save writes the file.
func (c *Counts) Save() error {
	if c.File == "" {
		return nil
	}
	c.mu.Lock()
	all := []savedCount{}
	for hour, in := range c.hours {
		for of, n := range in {
			all = append(all, savedCount{hour, of.bot, of.verified, n.Requests, n.Refused})
		}
	}
	c.mu.Unlock()
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.File), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteFile(c.File, text, 0o600)
}
