package detection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
)

// systems are those that are compared, Stint first.
var systems = []struct {
	name   string
	decide system
}{
	{"Stint", stint("website", "traps", "traps-php", "login")},
	{"fail2ban", fail2ban},
	{"CrowdSec", crowdSec},
}

// faster is why a peer catches guessing with fewer requests.
const faster = "fail2ban and CrowdSec ban an address after 5 or 6 failed logins within minutes, and with it everybody behind it: see the forgetful users. Stint tolerates 20 of an address, and 10 different accounts."

// reasons say why a row does not reach its goal, or a peer is better in it.
var reasons = map[string]string{
	"guessing, one a second":     faster,
	"guessing, one in 3 minutes": faster,
	"stuffing from one address":  faster,
	"one to three exploits":      "The rest hide their exploit in the query of an ordinary page. Traps are about paths; a web application firewall looks into queries.",
	"spray from one /24":         "Each address stays below every limit of one address. The limit of the network is full after 60 failed logins a day, and refuses only logins.",
	"botnet at one account":      "Caught by the limit of the account, which refuses everybody until the hour has passed. The first tries of an hour are served.",
	"botnet, three tries each":   "Such an address looks like a person who forgot a password.",
}

// goal is the most requests served until an attacker of a kind is caught, 0 for a kind that
// has none.
func goal(kind string) int64 {
	switch {
	case strings.HasPrefix(kind, "scanner"), strings.HasPrefix(kind, "guessed names"):
		return 10
	case strings.HasPrefix(kind, "guessing"):
		return 20
	}
	return 0
}

// allowance is the part of the requests of a benign kind that may be refused.
func allowance(kind string) float64 {
	if kind == "office NAT" {
		return 0.01
	}
	return 0.005
}

// measured is what one system did to a day. score is nil if it is not installed.
type measured struct {
	name    string
	refused []bool
	score   *backtest.Score
	ranges  *backtest.Score // of the ranges that it proposes, nil for none
}

func measure(ctx context.Context, t *Traffic) ([]measured, error) {
	var all []measured
	for _, s := range systems {
		m := measured{name: s.name}
		refused, ranges, err := s.decide(ctx, t)
		if err != nil && !errors.Is(err, errNotInstalled) {
			return nil, err
		}
		if err == nil {
			m.refused, m.ranges = refused, ranges
			if m.score, err = score(t, refused); err != nil {
				return nil, err
			}
		}
		all = append(all, m)
	}
	return all, nil
}

const introduction = `# Detection quality

Written by ` + "`make bench-detection`" + `; do not edit. The same requests are decided by Stint's presets ` + "`website`, `traps`, `traps-php` and `login`" + `, by fail2ban and by
CrowdSec. The day is made by ` + "`test/detection`" + ` with a fixed seed, so that who attacks is known; tests have the presets reach
the goals with other seeds.

- **Stint** is ` + "`backtest`" + `: the code of the server, with escalations. Logins say the scope login, and are decided by their address, and by the account, as in one check of an
  application. Two clients count as crawlers that DNS has verified.
- **fail2ban** is the installed program's own filters and failure counts on the clock of the requests, with the jails nginx-http-auth, nginx-botsearch, nginx-bad-request,
  apache-badbots and php-url-fopen as Debian configures them. A failed login is in the error log as well. What is banned is not logged.
- **CrowdSec** is the installed program, which replays the same logs with its collections nginx and base-http-scenarios, without its community blocklist, and bans for four hours. It is
  from Debian, and its lists are those of the package. A ban begins with the second after that of the alert, without the ten seconds after which a bouncer asks.

A request counts as served if it was not refused. An attacker counts as caught once a request of it is refused. *Served until* is the median and the largest number of requests
served before, of those caught; *served* is the part of all its requests. *In ranges* are
the clients in networks that Stint would have proposed to block, by the default settings and as if no proposal were accepted: nobody is refused by a proposal.
`

// publishedSeed makes the days of the document. No preset was tuned on it: the tests have other seeds.
const publishedSeed = 2026

// write writes the document about the synthetic day and, unless it is nil, a real log.
func write(ctx context.Context, w io.Writer, day, real *Traffic) error {
	all, err := measure(ctx, day)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(introduction)
	fmt.Fprintf(&b, "\n## Attackers\n\n%d requests of one day. The goals: scanners caught with at most 10 requests served, traps with none, guessing with at most 20.\n\n", len(day.Requests))
	writeAttackers(&b, all)
	writeRanges(&b, all)
	b.WriteString("\n## Benign clients\n\nThe part of the requests refused. The goals: at most 0.5 % of every kind, 1 % of an office behind one address.\n\n")
	writeBenign(&b, all)
	b.WriteString("\n## The kinds of client\n\n| kind | what they do |\n|---|---|\n")
	for _, k := range Kinds {
		fmt.Fprintf(&b, "| %s | %s |\n", k.Name, k.About)
	}
	if err := writeSites(ctx, &b, publishedSeed); err != nil {
		return err
	}
	if err := writeSSH(ctx, &b, publishedSeed); err != nil {
		return err
	}
	if err := writeReal(ctx, &b, real); err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func writeHeader(b *strings.Builder, first string, all []measured, last string) {
	fmt.Fprintf(b, "| %s |", first)
	for _, m := range all {
		fmt.Fprintf(b, " %s |", m.name)
	}
	fmt.Fprintf(b, " in ranges | %s |\n|---|%s---|---|\n", last, strings.Repeat("---|", len(all)))
}

func writeAttackers(b *strings.Builder, all []measured) {
	writeHeader(b, "attack", all, "goal, and why not")
	for _, k := range Kinds {
		if !k.IsAttack {
			continue
		}
		fmt.Fprintf(b, "| %s |", k.Name)
		var best, own backtest.AttackerScore
		for i, m := range all {
			if m.score == nil {
				b.WriteString(" not installed |")
				continue
			}
			a := attackersOf(m.score, k.Name)
			if i == 0 {
				own = a
			} else if a.Caught*max(1, a.Attackers) > 0 && (best.Caught == 0 || a.Served < best.Served) {
				best = a
			}
			if a.Caught == 0 {
				fmt.Fprintf(b, " 0 of %d; served %.0f %% |", a.Attackers, percent(a.Served, a.Requests))
				continue
			}
			fmt.Fprintf(b, " %d of %d; served until %d, %d; served %.0f %% |", a.Caught, a.Attackers, a.ServedMedian, a.ServedMax, percent(a.Served, a.Requests))
		}
		inRanges := attackersOf(all[0].ranges, k.Name)
		fmt.Fprintf(b, " %d of %d | %s |\n", inRanges.InRanges, inRanges.Attackers, verdict(k.Name, own, best))
	}
}

// writeRanges says whom the proposed ranges have.
func writeRanges(b *strings.Builder, all []measured) {
	r := all[0].ranges.Ranges
	fmt.Fprintf(b, "\nStint proposes %d %s, with %d of all %d attackers and %d of %d benign clients in them. fail2ban and CrowdSec have no such thing in these jails and collections.\n",
		r.Proposed, english.PluralWord(int(r.Proposed), "range", ""), r.AttackersCovered, r.Attackers, r.BenignCovered, r.Benign)
}

func attackersOf(s *backtest.Score, kind string) backtest.AttackerScore {
	return s.Attackers[slices.IndexFunc(s.Attackers, func(a backtest.AttackerScore) bool { return a.Label == kind })]
}

func benignOf(s *backtest.Score, kind string) backtest.BenignScore {
	return s.Benign[slices.IndexFunc(s.Benign, func(b backtest.BenignScore) bool { return b.Label == kind })]
}

// verdict says whether the goal of a row is reached, and why it is not.
func verdict(kind string, own, best backtest.AttackerScore) string {
	limit := goal(kind)
	missed := own.Caught < own.Attackers || limit > 0 && own.ServedMax > limit
	behind := best.Caught > 0 && (best.Caught > own.Caught || best.ServedMax < own.ServedMax)
	text := ""
	switch {
	case limit > 0 && missed:
		text = fmt.Sprintf("%d: not by all.", limit)
	case limit > 0:
		text = fmt.Sprintf("%d: yes.", limit)
	}
	if missed || behind {
		text = strings.TrimSpace(text + " " + reasons[kind])
	}
	return text
}

func writeBenign(b *strings.Builder, all []measured) {
	writeHeader(b, "client", all, "goal")
	for _, k := range Kinds {
		if k.IsAttack {
			continue
		}
		fmt.Fprintf(b, "| %s |", k.Name)
		reached := "yes"
		for i, m := range all {
			if m.score == nil {
				b.WriteString(" not installed |")
				continue
			}
			s := benignOf(m.score, k.Name)
			fmt.Fprintf(b, " %.2f %% of %d, %d of %d clients |", 100*s.Ratio, s.Requests, s.ClientsRefused, s.Clients)
			if i == 0 && s.Ratio > allowance(k.Name) {
				reached = "no"
			}
		}
		inRanges := benignOf(all[0].ranges, k.Name)
		fmt.Fprintf(b, " %d of %d | %.1f %%: %s |\n", inRanges.InRanges, inRanges.Clients, 100*allowance(k.Name), reached)
	}
}

// writeReal writes what each system refuses of a real log, of which no truth is known.
func writeReal(ctx context.Context, b *strings.Builder, t *Traffic) error {
	if t == nil {
		return nil
	}
	all, err := measure(ctx, t)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## A real log\n\nThe public sample log of a blog, %d requests of four days in 2015 by people, feed readers and search engines. Who attacks is not known; nearly nobody\n"+
		"does. Its minutes are all the same, so that rates of seconds and minutes seem higher than they were, and no crawler is exempt.\n\n| system | requests refused | of clients | of them answered 404 |\n|---|---|---|---|\n", len(t.Requests))
	for _, m := range all {
		if m.score == nil {
			fmt.Fprintf(b, "| %s | not installed | | |\n", m.name)
			continue
		}
		refused, missing, clients := 0, 0, map[netip.Addr]bool{}
		for i, r := range t.Requests {
			if m.refused[i] {
				refused++
				clients[r.Address] = true
				if r.Status == 404 {
					missing++
				}
			}
		}
		fmt.Fprintf(b, "| %s | %d (%.2f %%) | %d | %d |\n", m.name, refused, percent(int64(refused), int64(len(t.Requests))), len(clients), missing)
	}
	if r := all[0].ranges; r != nil && r.Ranges != nil {
		fmt.Fprintf(b, "\nStint proposes %d %s.\n", r.Ranges.Proposed, english.PluralWord(int(r.Ranges.Proposed), "range", ""))
	}
	return nil
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }

// readLog reads a real access log as traffic without labels.
func readLog(ctx context.Context, path string) (*Traffic, error) {
	files, err := accesslog.OpenFiles([]string{path}, accesslog.Options{})
	if err != nil {
		return nil, err
	}
	defer files.Close()
	sorted := accesslog.Sort(ctx, files, accesslog.SortOptions{})
	t := &Traffic{Label: map[netip.Addr]string{}}
	for {
		r, err := sorted.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		if network, isAddress := r.Key.Network(); isAddress {
			t.Requests = append(t.Requests, Request{At: time.UnixMilli(r.Time), Address: network.Addr(), Method: r.Method, Path: r.Path, Status: r.Status, Agent: r.Agent})
		}
	}
}
