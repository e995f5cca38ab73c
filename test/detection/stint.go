package detection

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
)

// system decides a day: it returns, for each request of a traffic, whether it was refused,
// and the score of the ranges that it proposes to block, nil for a system that proposes none.
type system func(context.Context, *Traffic) (refused []bool, ranges *backtest.Score, err error)

// stint returns what presets decide: those of the site about each request by its
// address; and where the preset login is among them, that about logins, first by their
// address and then by their account, as an application does with one check of two keys.
// Requests that one refuses do not reach the next. Those of logins say the scope login.
func stint(names ...string) system {
	return func(ctx context.Context, t *Traffic) (refused []bool, ranges *backtest.Score, err error) {
		var site, login []*rules.Policy
		for _, name := range names {
			preset, found := presets.Find(name)
			if !found {
				return nil, nil, fmt.Errorf("there is no preset %s", name)
			}
			if name == "login" {
				login = preset.Policies
			} else {
				for _, p := range preset.Policies { // also those that begin in shadow mode
					enforcing := *p
					enforcing.Mode = rules.Enforce
					site = append(site, &enforcing)
				}
			}
		}
		refused = make([]bool, len(t.Requests))
		steps := []struct {
			policies []*rules.Policy
			key      func(Request) string
		}{
			{site, func(r Request) string { return "ip:" + r.Address.String() }},
			{login, func(r Request) string { return r.loginKey("login:", r.Address.String()) }},
			{login, func(r Request) string { return r.loginKey("account:", r.Account) }},
		}
		for i, step := range steps {
			if len(step.policies) == 0 {
				continue
			}
			report, err := decide(ctx, t, step.policies, step.key, refused)
			if err != nil {
				return nil, nil, err
			}
			if i == 0 { // only addresses are in ranges
				ranges = report.Score
			}
		}
		return refused, ranges, nil
	}
}

// loginKey returns the key by which a login is checked, "" for other requests.
func (r Request) loginKey(kind, value string) string {
	if r.Account == "" {
		return ""
	}
	return kind + value
}

// decide has policies decide the requests that have a key and are not refused yet.
func decide(ctx context.Context, t *Traffic, policies []*rules.Policy, keyOf func(Request) string, refused []bool) (*backtest.Report, error) {
	var records []accesslog.Record
	var indexes []int
	for i, r := range t.Requests {
		text := keyOf(r)
		if text == "" || refused[i] {
			continue
		}
		key, err := keys.Parser{}.Key(text)
		if err != nil {
			return nil, err
		}
		records = append(records, accesslog.Record{Time: r.At.UnixMilli(), Key: key, Cost: 1, Path: r.Path, Method: r.Method, Agent: r.Agent, Status: r.Status})
		indexes = append(indexes, i)
	}
	crawlers, err := crawlersOf(t)
	if err != nil {
		return nil, err
	}
	scopes, err := accesslog.ParseScopes([]string{"POST /login=login", "POST /wp-login.php=login"})
	if err != nil {
		return nil, err
	}
	truth, _, err := truthOf(t)
	if err != nil {
		return nil, err
	}
	n := 0
	return backtest.Run(ctx, accesslog.Slice(records), backtest.Options{Plan: backtest.PoliciesPlan(policies), Crawlers: crawlers, Scopes: scopes, Truth: truth, Values: func(accesslog.Record) map[string]string {
		return map[string]string{"account": t.Requests[indexes[n]].Account}
	}, Decided: func(_ accesslog.Record, isRefused bool) {
		refused[indexes[n]] = isRefused
		n++
	}})
}

// crawlersOf returns the patterns of the crawlers that DNS would verify.
func crawlersOf(t *Traffic) ([]keys.Pattern, error) {
	var all []keys.Pattern
	for address, label := range t.Label {
		if label != crawlerLabel {
			continue
		}
		p, err := keys.Parser{}.Pattern("ip:" + address.String())
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// truthOf returns the truth about a traffic, and the key of each address in it.
func truthOf(t *Traffic) (*backtest.Truth, map[netip.Addr]string, error) {
	truth, named := backtest.NewTruth(), map[netip.Addr]string{}
	for address, label := range t.Label {
		key := keys.Parser{}.AddressKey(address)
		named[address] = key.String()
		attack := t.Attack[address]
		if !attack.IsZero() {
			attack = attack.Truncate(time.Millisecond) // as the times of records
		}
		if err := truth.Add(key, label, attack); err != nil {
			return nil, nil, err
		}
	}
	return truth, named, nil
}

// score compares decisions with the truth.
func score(t *Traffic, refused []bool) (*backtest.Score, error) {
	truth, named, err := truthOf(t)
	if err != nil {
		return nil, err
	}
	scorer := backtest.NewScorer(truth)
	for i, r := range t.Requests {
		key, known := named[r.Address]
		if !known {
			key = keys.Parser{}.AddressKey(r.Address).String()
			named[r.Address] = key
		}
		scorer.Count(key, r.At, refused[i])
	}
	return scorer.Score(), nil
}
