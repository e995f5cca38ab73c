package detection

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/backtest"
	filters "github.com/stint-dev/stint/internal/fail2ban"
	"github.com/stint-dev/stint/internal/presets"
)

// sshDay returns a day of the log of sshd, the same for the same seed: each request is a line of the log, its
// path, with the status 401 for a wrong password and 200 for a right one.
func sshDay(seed uint64) *Traffic {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 5)), share: 1, t: &Traffic{Label: map[netip.Addr]string{}, Attack: map[netip.Addr]time.Time{}}}
	for _, p := range sshParts {
		g.kind = p.Kind
		p.Make(g)
	}
	slices.SortStableFunc(g.t.Requests, func(a, b Request) int { return a.At.Compare(b.At) })
	return g.t
}

var sshParts = []Part{
	{Kind: attack("guessing", "45 addresses, 5 to 64 passwords each, one in 1 to 90 s"), Least: 1, Make: func(g *generator) {
		for range 45 {
			g.passwords(g.client(), 5+g.IntN(60), func() time.Duration { return time.Duration(1+g.IntN(90)) * time.Second })
		}
	}},
	{Kind: attack("slow guessing", "20 addresses, 40 passwords each, one in 4 minutes"), Least: 1, Make: func(g *generator) {
		for range 20 {
			g.passwords(g.client(), 40, func() time.Duration { return 4*time.Minute + g.upTo(10*time.Second) })
		}
	}},
	{Kind: benign("people", "60 people enter one to four wrong passwords, and then the right one"), Make: func(g *generator) {
		for range 60 {
			a := g.client()
			at := g.passwords(a, 1+g.IntN(4), func() time.Duration { return 8*time.Second + g.upTo(10*time.Second) })
			g.sshd(at, a, "Accepted", 200)
		}
	}},
}

// passwords has an address enter wrong passwords, and returns when the next one would be.
func (g *generator) passwords(a netip.Addr, tries int, every func() time.Duration) time.Time {
	at := g.between(0, 20)
	for range tries {
		g.sshd(at, a, "Failed", 401)
		at = at.Add(every())
	}
	return at
}

func (g *generator) sshd(at time.Time, a netip.Addr, what string, status int) {
	g.add(at, a, "", fmt.Sprintf("%s host sshd[%d]: %s password for u%d from %s port %d ssh2", at.UTC().Format(time.RFC3339), 1000+g.IntN(9000), what, g.IntN(50), a, 20000+g.IntN(9000)), status, "")
}

// stintSSH is the preset ssh, whose reports are what fail2ban's filter finds in the lines.
func stintSSH(ctx context.Context, t *Traffic) ([]bool, *backtest.Score, error) {
	filter, err := filters.ReadFilter("/etc/fail2ban/filter.d/sshd.conf", time.UTC)
	if err != nil {
		return nil, nil, err
	}
	parser, err := accesslog.NewLineParser([]byte(t.Requests[0].Path+"\n"), accesslog.Options{Filter: filter})
	if err != nil {
		return nil, nil, err
	}
	var records []accesslog.Record
	var indexes []int
	for i, r := range t.Requests {
		if r.Status != 401 {
			continue // the firewall alone refuses a right password: nobody asks Stint about it
		}
		record, err := parser.Parse([]byte(r.Path))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.Path, err)
		}
		record.Time = r.At.UnixMilli() // the line has whole seconds
		records, indexes = append(records, record), append(indexes, i)
	}
	preset, _ := presets.Find("ssh")
	refused, n := make([]bool, len(t.Requests)), 0
	_, err = backtest.Run(ctx, accesslog.Slice(records), backtest.Options{Plan: backtest.PoliciesPlan(preset.Policies), Outcomes: answers.DefaultOutcomes(nil), Decided: func(_ accesslog.Record, isRefused bool) {
		refused[indexes[n]] = isRefused
		n++
	}})
	blocked := map[netip.Addr]bool{}
	for i, r := range t.Requests {
		if r.Status != 401 {
			refused[i] = blocked[r.Address] // at most: the block may have ended
		}
		blocked[r.Address] = blocked[r.Address] || refused[i]
	}
	return refused, nil, err
}

// writeSSH writes what Stint and fail2ban do to guessers of the passwords of a server.
func writeSSH(ctx context.Context, b *strings.Builder, seed uint64) error {
	t := sshDay(seed)
	b.WriteString("\n## SSH\n\nA day of the log of sshd. Both read it by fail2ban's own filter: Stint has the preset `ssh`, fail2ban the jail sshd as Debian configures it. What is blocked is not logged.\n\n" +
		"| client | Stint | fail2ban | goal |\n|---|---|---|---|\n")
	var scores []map[string]partScore
	for _, decide := range []system{stintSSH, fail2banSSH} {
		refused, _, err := decide(ctx, t)
		if err != nil && !errors.Is(err, errNotInstalled) {
			return err
		}
		scores = append(scores, nil)
		if err == nil {
			scores[len(scores)-1] = scoreParts(t, refused)
		}
	}
	for _, p := range sshParts {
		fmt.Fprintf(b, "| %s: %s |", p.Name, p.About)
		writeScores(b, &p, scores)
	}
	return nil
}
