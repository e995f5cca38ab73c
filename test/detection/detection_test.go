package detection

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/presets"
)

// document is written by "make bench-detection".
var document = flag.String("document", "", "the file that BenchmarkQuality writes its tables to")

var part = flag.Float64("part", 1, "the part of the clients of each kind that BenchmarkQuality has")

// BenchmarkQuality measures all systems that are installed, which takes some minutes.
func BenchmarkQuality(b *testing.B) {
	var real *Traffic
	folder := os.Getenv("STINT_TEST_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data")
	}
	path := filepath.Join(folder, "apache_access.log.gz")
	if _, err := os.Stat(path); err != nil {
		b.Logf("without the real log; STINT_TEST_DATA names its folder: %v", err)
	} else if real, err = readLog(b.Context(), path); err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for b.Loop() {
		text.Reset()
		if err := write(b.Context(), &text, Generate(publishedSeed, *part), real); err != nil {
			b.Fatal(err)
		}
	}
	if *document == "" {
		b.Log("\n" + text.String())
	} else if err := os.WriteFile(*document, []byte(text.String()), 0o644); err != nil {
		b.Fatal(err)
	}
}

// TestPresetsCatchAttackersAndSpareOthers tests the presets on a part of the day, also with
// seeds that they were not tuned for.
func TestPresetsCatchAttackersAndSpareOthers(t *testing.T) {
	if day := Generate(1, 0.1); !slices.Equal(day.Requests, Generate(1, 0.1).Requests) {
		t.Error("Generate with the same seed: got another day")
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) { checkPresets(t, Generate(seed+1, 0.1)) })
	}
}

func checkPresets(t *testing.T, day *Traffic) {
	refused, ranges, err := systems[0].decide(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	s, err := score(day, refused)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Attackers) != 14 || len(s.Benign) != 8 {
		t.Errorf("got %d kinds of attacks and %d of benign clients, want 14 and 8", len(s.Attackers), len(s.Benign))
	}
	for _, a := range s.Attackers {
		missed := slices.Contains([]string{"spray from one /24", "botnet, three tries each", "botnet at one account", "one to three exploits"}, a.Label)
		if a.Caught < a.Attackers && !missed {
			t.Errorf("%s: %d of %d are caught", a.Label, a.Caught, a.Attackers)
		}
		if (strings.HasPrefix(a.Label, "guess") || strings.HasPrefix(a.Label, "scanner")) && a.ServedMax > goal(a.Label) {
			t.Errorf("%s: %d requests are served until one is caught", a.Label, a.ServedMax)
		}
	}
	for _, b := range s.Benign {
		if b.Ratio > allowance(b.Label) {
			t.Errorf("%s: %d of %d requests are refused", b.Label, b.Refused, b.Requests)
		}
		if in := benignOf(ranges, b.Label).InRanges; in > 0 {
			t.Errorf("%s: %d clients are in proposed ranges", b.Label, in)
		}
	}
}

// TestSprayFromOneNetworkIsRefusedAndProposed tests the spray from a whole network. The
// other clients must not be affected.
func TestSprayFromOneNetworkIsRefusedAndProposed(t *testing.T) {
	day := &generator{Rand: rand.New(rand.NewPCG(1, 1)), share: 1, t: &Traffic{Label: map[netip.Addr]string{}, Attack: map[netip.Addr]time.Time{}}}
	for _, part := range []struct {
		kind string
		make func()
	}{{"spray from one /24", day.spray}, {"subscribers of one /24", day.subscribers}, {"scanner, shared by one /24", day.sharedScan}} {
		day.kind = Kinds[slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == part.kind })]
		part.make()
	}
	slices.SortStableFunc(day.t.Requests, func(a, b Request) int { return a.At.Compare(b.At) })
	refused, ranges, err := systems[0].decide(t.Context(), day.t)
	if err != nil {
		t.Fatal(err)
	}
	s, err := score(day.t, refused)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"spray from one /24", "scanner, shared by one /24"} {
		if a, r := attackersOf(s, kind), attackersOf(ranges, kind); a.Caught != 40 || r.InRanges != 40 {
			t.Errorf("%s: %d are caught, and %d in proposed ranges", kind, a.Caught, r.InRanges)
		}
	}
	if b := benignOf(s, "subscribers of one /24"); b.Clients != 200 || b.Refused != 0 || benignOf(ranges, b.Label).InRanges != 0 {
		t.Errorf("the subscribers are %+v", b)
	}
}

// TestOfficesOfAnySizeKeepTheirLogins has offices behind one address each log in in the morning, three of
// ten people with one or two wrong passwords first. A success takes back what they gave.
func TestOfficesOfAnySizeKeepTheirLogins(t *testing.T) {
	for _, people := range []int{20, 80, 200, 500} {
		g := &generator{Rand: rand.New(rand.NewPCG(7, uint64(people))), share: 1, kind: Kinds[1], t: &Traffic{Label: map[netip.Addr]string{}, Attack: map[netip.Addr]time.Time{}}}
		a := g.client()
		for person := range people {
			at, account := g.between(8, 9.5), fmt.Sprint("person-", person)
			if g.IntN(10) < 3 {
				for range 1 + g.IntN(2) {
					g.login(at, a, account, false, browser)
					at = at.Add(8*time.Second + g.upTo(10*time.Second))
				}
			}
			g.login(at, a, account, true, browser)
		}
		slices.SortStableFunc(g.t.Requests, func(a, b Request) int { return a.At.Compare(b.At) })
		refused, _, err := stint("website", "traps", "login")(t.Context(), g.t)
		if err != nil {
			t.Fatal(err)
		}
		lost := 0
		for _, is := range refused {
			if is {
				lost++
			}
		}
		if 100*lost > len(refused) {
			t.Errorf("an office of %d loses %d of %d logins", people, lost, len(refused))
		}
	}
}

// TestWrongPasswordsOfAnOfficeLimitOnlyLogins has an office of which fifteen logins in a row fail within an hour:
// only its logins are refused then, and none of its pages.
func TestWrongPasswordsOfAnOfficeLimitOnlyLogins(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(9, 9)), share: 1, kind: Kinds[1], t: &Traffic{Label: map[netip.Addr]string{}, Attack: map[netip.Addr]time.Time{}}}
	a := g.client()
	for i := range 300 {
		at := day.Add(9*time.Hour + time.Duration(i)*10*time.Second)
		g.add(at, a, "GET", fmt.Sprint("/page/", i%40), 200, browser)
		if i%20 == 0 {
			g.login(at.Add(time.Second), a, fmt.Sprint("person-", i), false, browser)
		}
	}
	refused, _, err := stint("website", "traps")(t.Context(), g.t)
	if err != nil {
		t.Fatal(err)
	}
	logins := 0
	for i, is := range refused {
		switch r := g.t.Requests[i]; {
		case is && r.Method == "POST":
			logins++
		case is:
			t.Fatalf("%s %s at %s is refused", r.Method, r.Path, r.At)
		}
	}
	if logins == 0 {
		t.Error("no login is refused after ten that failed")
	}
}

// TestWhatIsNoRequestIsRefused has a client send the beginning of TLS to the port of HTTP twice.
func TestWhatIsNoRequestIsRefused(t *testing.T) {
	preset, _ := presets.Find("website")
	key := (keys.Parser{}).AddressKey(netip.MustParseAddr("192.0.2.1"))
	var records []accesslog.Record
	for i := range 3 {
		records = append(records, accesslog.Record{Time: day.Add(time.Duration(i) * time.Minute).UnixMilli(), Key: key, Cost: 1, Status: 400, IsNoRequest: i < 2})
	}
	n := 0
	_, err := backtest.Run(t.Context(), accesslog.Slice(records), backtest.Options{Plan: backtest.PoliciesPlan(preset.Policies), Decided: func(_ accesslog.Record, isRefused bool) {
		if n++; isRefused != (n == 3) {
			t.Errorf("request %d: refused is %t", n, isRefused)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}
