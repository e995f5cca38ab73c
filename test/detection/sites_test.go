package detection

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/backtest"
	filters "github.com/stint-dev/stint/internal/fail2ban"
	"github.com/stint-dev/stint/internal/presets"
)

// The presets reach the goals of every site, also with seeds that are not published.
func TestPresetsReachTheirGoalsOnOtherSites(t *testing.T) {
	for _, site := range Sites() {
		t.Run(site.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
					day := site.Day(seed + 1)
					refused, _, err := stint(site.Presets...)(t.Context(), day)
					if err != nil {
						t.Fatal(err)
					}
					scores := scoreParts(day, refused)
					for _, p := range site.Parts {
						if s := scores[p.Name]; s.clients == 0 || !p.isReached(s) {
							t.Errorf("%s: %d of %d clients are caught, %d of %d requests refused, want %s", p.Name, s.caught, s.clients, s.refused, s.requests, p.goal())
						}
					}
				})
			}
		})
	}
}

// The preset ssh blocks clients that guess the passwords of a server, by the own filter of fail2ban, and none that
// mistype.
func TestGuessersOfSSHAreCaught(t *testing.T) {
	filter, err := filters.ReadFilter("/etc/fail2ban/filter.d/sshd.conf", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	g := rand.New(rand.NewPCG(3, 3))
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	fail := func(address string, tries int, every func() time.Duration) {
		at := day.Add(time.Duration(g.IntN(60_000)) * time.Second)
		for range tries {
			lines = append(lines, line{at, fmt.Sprintf("%s host sshd[%d]: Failed password for invalid user u%d from %s port %d ssh2", at.Format(time.RFC3339), 1000+g.IntN(9000), g.IntN(50), address, 20000+g.IntN(9000))})
			at = at.Add(every())
		}
	}
	for i := range 45 {
		fail(fmt.Sprintf("198.51.100.%d", i+1), 5+g.IntN(60), func() time.Duration { return time.Duration(1+g.IntN(90)) * time.Second })
	}
	for i := range 60 {
		fail(fmt.Sprintf("203.0.113.%d", i+1), 1+g.IntN(4), func() time.Duration { return 8 * time.Second })
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	parser, err := accesslog.NewLineParser([]byte(lines[0].text+"\n"), accesslog.Options{Filter: filter})
	if err != nil {
		t.Fatal(err)
	}
	var records []accesslog.Record
	for _, l := range lines {
		r, err := parser.Parse([]byte(l.text))
		if err != nil {
			t.Fatalf("%s: %v", l.text, err)
		}
		records = append(records, r)
	}
	preset, _ := presets.Find("ssh")
	caught := map[string]bool{}
	_, err = backtest.Run(t.Context(), accesslog.Slice(records), backtest.Options{Plan: backtest.PoliciesPlan(preset.Policies), Outcomes: answers.DefaultOutcomes(nil), Decided: func(r accesslog.Record, isRefused bool) {
		if isRefused {
			caught[r.Key.String()] = true
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	attackers := 0
	for key := range caught {
		if !strings.HasPrefix(key, "ip:198.51.100.") {
			t.Errorf("%s is refused", key)
		}
		attackers++
	}
	if attackers < 45 {
		t.Errorf("%d of 45 are caught", attackers)
	}
}
