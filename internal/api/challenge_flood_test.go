package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
)

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools hold is freed by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A flood that asks for thousands of challenges and solves or fails them leaves little behind: challenges nothing, solutions two
// small logs each for an hour, bounded by what an address may earn. The checks of others are answered as before.
func TestAFloodOfChallengesIsBounded(t *testing.T) {
	for _, provider := range []challenge.Provider{challenge.NoCaptcha, challenge.Altcha} {
		var g *gate.Gate
		n := startNode(t, func(p *nodeParts) { g = p.Gate })
		address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(i % 50)}) }
		s := challenge.New(challenge.Options{
			Secret: func() []byte { return []byte("secret") }, Now: n.clock.Now, Difficulty: 1, Wait: time.Second, PassFor: time.Hour, Captcha: challenge.Captcha{Provider: provider},
			Earn: func(ctx context.Context, a netip.Addr, name string) (string, bool) {
				earned := g.Earn(ctx, keys.Parser{}.AddressKey(a), name, 20)
				return earned.Shared, earned.IsFirst
			},
		})
		visit := func(i int, target string) *challenge.Answer {
			a, _ := s.Visit(t.Context(), &challenge.Visit{Target: target, Address: address(i)})
			return a
		}
		solved := 0
		flood := func(from, to int) {
			for i := from; i < to; i++ {
				page := string(visit(i, challenge.Path+"?to=/a").Body)
				at := strings.Index(page, challenge.PathPass+"?c=")
				link, _, _ := strings.Cut(page[at:], `"`)
				visit(i, challenge.PathPass+"?c=forged&captcha=x&n=1")
				visit(i, link+"&captcha=eyJ9&n=x")
				if provider == challenge.NoCaptcha {
					for c := range 64 { // one of two counters solves it
						if visit(i, fmt.Sprint(link, "&n=", c)).Status == http.StatusSeeOther {
							solved++
							break
						}
					}
				}
			}
		}
		flood(0, 2_000) // more than all 50 addresses may earn
		before := heap()
		flood(2_000, 3_000)
		if grown := heap() - before; grown > 64<<10 {
			t.Errorf("%q: 1,000 more have left %d bytes", provider, grown)
		}
		if provider == challenge.NoCaptcha && solved < 2_750 {
			t.Errorf("only %d challenges were solved", solved)
		}
		d, err := g.Check(t.Context(), gate.Check{Key: keys.Parser{}.AddressKey(netip.MustParseAddr("203.0.113.1")), Cost: 1})
		if err != nil || !d.Allowed() {
			t.Errorf("%q: a check of another address: %s, %v", provider, d.Outcome, err)
		}
	}
}
