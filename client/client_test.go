package client_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

func TestMain(m *testing.M) { testnode.Main(m) }

// waitLimit bounds every wait for something that must happen; nothing is said
// about how soon it does.
const waitLimit = time.Minute

// connect returns a client of the shared node.
func connect(t testing.TB, options ...client.Option) *client.Client {
	t.Helper()
	return connectTo(t, os.Getenv(testnode.CheckURL), options...)
}

// connectTo returns a client that is with the waitLimit as its timeout.
func connectTo(t testing.TB, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, append([]client.Option{client.WithTimeout(waitLimit)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fresh returns a key that nobody has used.
func fresh(kind string) string { return kind + ":" + rand.Text() }

// ask sends a check that must be answered.
func ask(t testing.TB, c *client.Client, q client.Check) *client.Decision {
	t.Helper()
	d, err := c.Check(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// charged returns how much of the 3/1d of a user is used.
func charged(t testing.TB, key string) int {
	t.Helper()
	d := ask(t, connect(t, client.WithMemory(0)), client.Check{Key: key, Peek: true})
	if len(d.Rules) != 1 {
		t.Fatalf("a peek: got %+v, want one rule", d)
	}
	return 3 - d.Rules[0].Remaining
}

func TestCheckReturnsAllFieldsOfADecision(t *testing.T) {
	c, key := connect(t, client.WithMemory(0)), fresh("user")
	d := ask(t, c, client.Check{Key: key, Cost: 2})
	if !d.Allowed || d.Outcome != client.Allowed || d.Key != key || d.Policy != "users" || d.Mode != "enforce" || d.ID != "" || d.RetryAfter != 0 {
		t.Errorf("an allowed check: got %+v", d)
	}
	if len(d.Rules) != 1 || d.Rules[0].Rule != "3/1d" || d.Rules[0].Limit != 3 || d.Rules[0].Window != 24*time.Hour || d.Rules[0].Remaining != 1 {
		t.Errorf("an allowed check: got the rules %+v", d.Rules)
	}
	d = ask(t, c, client.Check{Key: key, Cost: 2})
	if d.Allowed || d.Outcome != client.Limited || d.Rule != "3/1d" || d.ID == "" || d.RetryAfter <= 0 || d.RetryAt.IsZero() || d.FromCache {
		t.Errorf("a limited check: got %+v", d)
	}
	d = ask(t, c, client.Check{Key: fresh("never")})
	if d.Allowed || d.RetryAfter != client.Never || !d.RetryAt.IsZero() || d.Rules[0].RetryAfter != client.Never {
		t.Errorf("a check that is never allowed: got %+v", d)
	}
	if d := ask(t, c, client.Check{Key: fresh("user"), Detail: client.DetailNone}); d.Rules != nil {
		t.Errorf("with DetailNone: got the rules %+v", d.Rules)
	}
}

func TestChargeAlwaysFillsTheLimitWhenTheCostDoesNotFit(t *testing.T) {
	c := connect(t)
	user, other := fresh("user"), fresh("user")
	for range 2 { // the second is not answered from memory
		d := ask(t, c, client.Check{Key: user, Cost: 50_000, Charge: client.ChargeAlways})
		if d.Allowed || d.FromCache || d.Outcome != client.Limited || d.Rules[0].Remaining != 0 {
			t.Errorf("a check with ChargeAlways: got %+v", d)
		}
	}
	combined, err := c.CheckAll(t.Context(), client.CombinedCheck{
		Keys: []client.CombinedKey{{Key: user}, {Key: other, Cost: 2}}, Charge: client.ChargeAlways,
	})
	if err != nil || combined.Allowed {
		t.Fatalf("CheckAll with ChargeAlways: got %+v, %v", combined, err)
	}
	if d := ask(t, c, client.Check{Key: other, Peek: true}); d.Rules[0].Remaining != 1 {
		t.Errorf("the second key: got %d remaining, want 1", d.Rules[0].Remaining)
	}
}

func TestCheckReturnsBlocksAndExemptions(t *testing.T) {
	c, key := connect(t), fresh("user")
	n := testnode.Shared()
	n.Do(t, "POST", "/v1/blocks", `{"pattern":"`+key+`","reason":"scraping","expires_in":"1h"}`, 201)
	d := ask(t, c, client.Check{Key: key})
	if d.Outcome != client.Blocked || d.Block == nil || d.Block.Pattern != key || d.Block.Reason != "scraping" || d.Block.ExpiresAt.IsZero() || d.RetryAfter <= 0 {
		t.Errorf("a check of a blocked key: got %+v", d)
	}
	n.Do(t, "POST", "/v1/exemptions", `{"pattern":"`+key+`","reason":"ours"}`, 201)
	d = ask(t, c, client.Check{Key: key, Fresh: true})
	if !d.Allowed || d.Exemption == nil || d.Exemption.Reason != "ours" || len(d.Warnings) != 1 {
		t.Errorf("a check of an exempt key: got %+v", d)
	}
}

func TestInvalidCheckReturnsAProblemInEveryOutageMode(t *testing.T) {
	for name, test := range map[string]struct {
		q     client.Check
		field string
	}{
		"no key":            {client.Check{}, "key"},
		"an unknown policy": {client.Check{Key: "user:a", Policy: "nobody"}, "policy"},
		"a negative cost":   {client.Check{Key: "user:a", Cost: -1}, "cost"},
		"a bad address":     {client.Check{Key: "ip:300.1.2.3"}, "key"},
	} {
		for _, outage := range []client.OnOutage{client.ReturnError, client.FailOpen, client.FailClosed} {
			d, err := connect(t, client.WithOutage(outage)).Check(t.Context(), test.q)
			var problem *client.Problem
			if d != nil || !errors.As(err, &problem) || problem.Status != 422 || problem.Field != test.field || problem.Detail == "" {
				t.Errorf("%s, %v: got %+v, %v", name, outage, d, err)
			}
		}
	}
	if _, err := connect(t).Check(t.Context(), client.Check{Key: "user:\xff"}); err == nil {
		t.Error("Check with a key that is not UTF-8: got no error")
	}
}

func TestWithTokenAuthenticatesAndAMissingTokenIsAnOutage(t *testing.T) {
	n := testnode.Start(t, "--check-auth", "token")
	secret := tokenOf(t, n, "check")
	if d := ask(t, connectTo(t, n.Check, client.WithToken(secret)), client.Check{Key: fresh("user")}); !d.Allowed {
		t.Errorf("Check with a token: got %+v, want allowed", d)
	}
	_, err := connectTo(t, n.Check).Check(t.Context(), client.Check{Key: fresh("user")})
	var outage *client.OutageError
	var problem *client.Problem
	if !errors.As(err, &outage) || outage.Attempts != 1 || !errors.As(err, &problem) || problem.Status != 401 {
		t.Errorf("Check without a token: got %v, want an outage with status 401", err)
	}
	d, err := connectTo(t, n.Check, client.WithOutage(client.FailOpen)).Check(t.Context(), client.Check{Key: "user:a"})
	if err != nil || !d.Allowed || d.Outage == nil {
		t.Errorf("Check without a token, failing open: got %+v, %v", d, err)
	}
}

func TestBatchReturnsResultsInOrder(t *testing.T) {
	c, key := connect(t), fresh("user")
	items, err := c.Batch(t.Context(), []client.Check{{Key: key, Cost: 3}, {Key: ""}, {Key: key}, {Key: fresh("user"), Detail: client.DetailRules}})
	if err != nil || len(items) != 4 {
		t.Fatalf("got %+v, %v", items, err)
	}
	var problem *client.Problem
	if d := items[0].Decision; !d.Allowed || d.Rules != nil {
		t.Errorf("the first check: got %+v", d)
	}
	if !errors.As(items[1].Err, &problem) || problem.Field != "key" || items[1].Decision != nil {
		t.Errorf("the second check: got %+v", items[1])
	}
	if d := items[2].Decision; d.Outcome != client.Limited {
		t.Errorf("the third check: got %+v", d)
	}
	if d := items[3].Decision; len(d.Rules) != 1 {
		t.Errorf("the fourth check: got %+v", d)
	}
	items, err = c.Batch(t.Context(), []client.Check{{Key: key}, {Key: fresh("user")}})
	if err != nil || !items[0].Decision.FromCache || items[1].Decision.FromCache || !items[1].Decision.Allowed {
		t.Errorf("a batch with one cached refusal: got %+v, %v", items, err)
	}
	for _, n := range []int{0, client.MaxBatch + 1} {
		if _, err := c.Batch(t.Context(), make([]client.Check, n)); err == nil {
			t.Errorf("Batch of %d checks: got no error", n)
		}
	}
}

func TestConcurrentChecksAreChargedOnceEach(t *testing.T) {
	c, key := connect(t, client.WithMemory(0)), fresh("user")
	results := make(chan bool)
	for range 32 {
		go func() {
			d, err := c.Check(context.WithoutCancel(t.Context()), client.Check{Key: key})
			if err != nil {
				t.Error(err)
			}
			results <- err == nil && d.Allowed
		}()
	}
	allowed := 0
	for range 32 {
		if <-results {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("the rule 3/1d allowed %d checks, want 3", allowed)
	}
}

func TestNewRejectsBadURLsAndOptions(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:8080", "ftp://host", "http://", "http://user:secret@host", "http://host?a=b", "http://host:port"} {
		if _, err := client.New(url); err == nil {
			t.Errorf("New(%q): got no error", url)
		}
	}
	for name, option := range map[string]client.Option{
		"zero timeout": client.WithTimeout(0), "negative retries": client.WithRetries(-1), "a negative memory": client.WithMemory(-1),
		"an unknown outage mode": client.WithOutage(3), "a nil HTTP client": client.WithHTTPClient(nil), "a token of two lines": client.WithToken("a\nb"), "a token with a NUL": client.WithToken("a\x00b"),
	} {
		if _, err := client.New("http://127.0.0.1:8080", option); err == nil {
			t.Errorf("New with %s: got no error", name)
		}
	}
}

func TestWithTraceparentSendsTheTraceOfTheContext(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	type key struct{}
	c := connect(t, client.WithTraceparent(func(ctx context.Context) string {
		parent, _ := ctx.Value(key{}).(string)
		return parent
	}))
	for parent, want := range map[string]string{"": "", "00-" + trace + "-00f067aa0ba902b7-00": trace} {
		var problem *client.Problem
		_, err := c.Check(context.WithValue(t.Context(), key{}, parent), client.Check{Key: "user:a", Policy: "no-such-policy"})
		if !errors.As(err, &problem) || problem.TraceID != want {
			t.Errorf("traceparent %q: got %v, %+v, want the trace %q", parent, err, problem, want)
		}
	}
}
