package conditions

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// agentCache remembers which conditions the agents meet that come again and again: to search a hundred names
// of bots in an agent takes longer than most of what else a check does. An agent takes a place when it is
// the last one there that was not remembered, so that those that come once, however many, neither allocate
// nor replace others, and cost a hash more than without the cache. It is safe for concurrent use.
type agentCache struct {
	seed   maphash.Seed // nobody can choose agents for one place
	places [agentPlaces]agentPlace
}

// agentPlaces bounds the agents that are remembered: the longest ones take 2 MB.
const agentPlaces = 1024

type agentPlace struct {
	last atomic.Uint64 // the hash of the last agent that was not remembered
	kept atomic.Pointer[keptAgent]
}

type keptAgent struct {
	agent string
	met   set
}

func newAgentCache() *agentCache { return &agentCache{seed: maphash.MakeSeed()} }

// find returns what is remembered of an agent, nil for nothing, and its place and hash for notice.
func (c *agentCache) find(agent string) (met set, place *agentPlace, hash uint64) {
	hash = maphash.String(c.seed, agent)
	place = &c.places[hash%agentPlaces]
	if kept := place.kept.Load(); kept != nil && kept.agent == agent {
		return kept.met, place, hash
	}
	return nil, place, hash
}

// notice remembers what an agent meets if it has come twice.
func (p *agentPlace) notice(agent string, hash uint64, met set) {
	if p.last.Swap(hash) == hash {
		p.kept.Store(&keptAgent{strings.Clone(agent), slices.Clone(met)})
	}
}
