package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/servers"
)

// TestWebsitePresetBlocksGuessersAndForgivesLogins reports failed logins of three addresses. Ten
// fill the limit. The third above it blocks the address; the second does not, and successes in
// between keep the limit from being reached.
func TestWebsitePresetBlocksGuessersAndForgivesLogins(t *testing.T) {
	a := startApp(t)
	putSuspicion(t, a)
	reportOf := func(outcome, key string, times int) {
		t.Helper()
		for range times {
			answer, err := http.Post("http://"+a.CheckAddr().String()+"/v1/report", "application/json",
				strings.NewReader(fmt.Sprintf(`{"key":%q,"outcome":%q}`, key, outcome)))
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("a report: got %d", answer.StatusCode)
			}
		}
	}
	report := func(key string, times int) { t.Helper(); reportOf("login_failed", key, times) }
	blockOf := func(key string) *blocks.Entry { t.Helper(); return blockOf(t, a, key) }
	const people, guesser, office = "ip:203.0.113.1", "ip:203.0.113.2", "ip:203.0.113.3"
	for range 20 {
		report(office, 3)
		reportOf("login_ok", office, 1)
	}
	report(people, 22)
	report(guesser, 22)
	for _, key := range []string{people, guesser, office} {
		if b := blockOf(key); b != nil {
			t.Fatalf("%s is blocked after two refused reports: %+v", key, b)
		}
	}
	report(guesser, 1)
	servers.Await(t, "the guesser is blocked", func() bool { return blockOf(guesser) != nil })
	if b := blockOf(guesser); b.Source != blocks.Automatic || b.Expires.Sub(b.Created.Time()) != 4*time.Hour {
		t.Errorf("got the block %+v, want an automatic one of four hours", b)
	}
	if b := blockOf(people); b != nil {
		t.Errorf("%s is blocked by %+v, want no block", people, b)
	}
}

// putSuspicion stores the policy of evidence of the preset website.
func putSuspicion(t *testing.T, a *App) {
	t.Helper()
	preset, found := presets.Find("website")
	at := slices.IndexFunc(preset.Policies, func(p *rules.Policy) bool { return p.Name == "suspicion" })
	if !found || at < 0 {
		t.Fatal("there is no preset website with a policy suspicion")
	}
	p := preset.Policies[at]
	if p.Escalation == nil || p.Escalation.Threshold != 3 {
		t.Fatalf("the preset has the escalation %+v, want the threshold 3", p.Escalation)
	}
	if _, err := a.backends.store.Policies.PutPolicy(t.Context(), audit.SystemActor("test"), p, etag.New); err != nil {
		t.Fatal(err)
	}
}

// blockOf returns the block of a key after all that was counted so far, nil for none.
func blockOf(t *testing.T, a *App, key string) *blocks.Entry {
	t.Helper()
	if err := a.flusher.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	k, err := keys.Parser{}.Key(key)
	if err != nil {
		t.Fatal(err)
	}
	return a.catalog.Blocks().Match(k, time.Now()).Block
}
