package conditions

import (
	"fmt"
	"hash/maphash"
	"testing"
)

func TestAgentsThatComeOnceReplaceNone(t *testing.T) {
	index := NewIndex([]When{parse(t, Texts{"agent": {"*bot*"}}), parse(t, Texts{"agent": {"not *bot*"}}), parse(t, Texts{"method": {"get"}})})
	var m *matcher
	for _, of := range index.matchers {
		if of.attribute == Agent {
			m = of
		}
	}
	const comesAgain = "somebot/1"
	place := func(agent string) *agentPlace {
		return &m.agents.places[maphash.String(m.agents.seed, agent)%agentPlaces]
	}
	is := func(agent, want string) {
		t.Helper()
		var got []int
		index.Find(NewRequest("", "GET", agent, ""), func(i int) { got = append(got, i) })
		if fmt.Sprint(got) != want {
			t.Fatalf("%s meets %v, want %s", agent, got, want)
		}
	}
	for range 3 {
		is(comesAgain, "[0 2]")
		is("Mozilla/5.0", "[1 2]")
	}
	is(comesAgain, "[0 2]")
	is(comesAgain, "[0 2]") // twice in a row, should both have one place
	kept := place(comesAgain).kept.Load()
	if kept == nil || kept.agent != comesAgain {
		t.Fatalf("the agent that came twice is not remembered: %+v", kept)
	}
	for i := range 50_000 {
		is(fmt.Sprintf("bot/2.%d", i), "[0 2]")
		is(fmt.Sprintf("browser/2.%d", i), "[1 2]")
	}
	if place(comesAgain).kept.Load() != kept {
		t.Error("agents that came once replaced one that came again")
	}
	fresh := make([]*Request, 1000)
	for i := range fresh {
		fresh[i] = NewRequest("", "", fmt.Sprintf("bot/3.%d", i), "")
	}
	at := 0
	if n := testing.AllocsPerRun(len(fresh)-1, func() { index.Find(fresh[at], func(int) {}); at++ }); n != 0 {
		t.Errorf("an agent that comes once allocates %v times", n)
	}
}

// BenchmarkFindAgents compares agents that come again, agents that come once and an index that remembers
// none.
func BenchmarkFindAgents(b *testing.B) {
	all := make([]When, 0, 100)
	for i := range cap(all) {
		all = append(all, parse(b, Texts{"agent": {fmt.Sprintf("*crawler%d-*", i)}}))
	}
	const agent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/"
	requests := make([]*Request, 10_000)
	for i := range requests {
		requests[i] = NewRequest("", "", fmt.Sprint(agent, i), "")
	}
	for _, one := range []struct {
		name      string
		agents    int
		remembers bool
	}{{"again", 1, true}, {"once", len(requests), true}, {"without", len(requests), false}} {
		b.Run(one.name, func(b *testing.B) {
			index := NewIndex(all)
			if !one.remembers {
				index.matchers[0].agents = nil
			}
			i := 0
			for b.Loop() {
				index.Find(requests[i%one.agents], func(int) {})
				i++
			}
		})
	}
}
