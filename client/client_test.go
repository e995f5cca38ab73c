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
		t.Fatalf("the peek names no rule: %+v", d)
	}
	return 3 - d.Rules[0].Remaining
}

func TestCheckReturnsAllFieldsOfADecision(t *testing.T) {
	c, key := connect(t, client.WithMemory(0)), fresh("user")
	d := ask(t, c, client.Check{Key: key, Cost: 2})
	if !d.Allowed || d.Outcome != client.Allowed || d.Key != key || d.Policy != "users" || d.Mode != "enforce" || d.ID != "" || d.RetryAfter != 0 {
		t.Errorf("allowed: %+v", d)
	}
	if len(d.Rules) != 1 || d.Rules[0].Rule != "3/1d" || d.Rules[0].Limit != 3 || d.Rules[0].Window != 24*time.Hour || d.Rules[0].Remaining != 1 {
		t.Errorf("its rules: %+v", d.Rules)
	}
	d = ask(t, c, client.Check{Key: key, Cost: 2})
	if d.Allowed || d.Outcome != client.Limited || d.Rule != "3/1d" || d.ID == "" || d.RetryAfter <= 0 || d.RetryAt.IsZero() || d.FromCache {
		t.Errorf("limited: %+v", d)
	}
	d = ask(t, c, client.Check{Key: fresh("never")})
	if d.Allowed || d.RetryAfter != client.Never || !d.RetryAt.IsZero() || d.Rules[0].RetryAfter != client.Never {
		t.Errorf("never: %+v", d)
	}
	if d := ask(t, c, client.Check{Key: fresh("user"), Detail: client.DetailNone}); d.Rules != nil {
		t.Errorf("no detail: %+v", d.Rules)
	}
}

func TestChargeAlwaysFillsTheLimitWhenTheCostDoesNotFit(t *testing.T) {
	c := connect(t)
	user, other := fresh("user"), fresh("user")
	for range 2 { // the second is not answered from memory
		d := ask(t, c, client.Check{Key: user, Cost: 50_000, Charge: client.ChargeAlways})
		if d.Allowed || d.FromCache || d.Outcome != client.Limited || d.Rules[0].Remaining != 0 {
			t.Errorf("the report: %+v", d)
		}
	}
	joint, err := c.CheckAll(t.Context(), client.CombinedCheck{
		Keys: []client.CombinedKey{{Key: user}, {Key: other, Cost: 2}}, Charge: client.ChargeAlways,
	})
	if err != nil || joint.Allowed {
		t.Fatalf("several keys: %+v, %v", joint, err)
	}
	if d := ask(t, c, client.Check{Key: other, Peek: true}); d.Rules[0].Remaining != 1 {
		t.Errorf("the other key has %d left, want 1", d.Rules[0].Remaining)
	}
}

func TestCheckReturnsBlocksAndExemptions(t *testing.T) {
	c, key := connect(t), fresh("user")
	n := testnode.Shared()
	n.Do(t, "POST", "/v1/blocks", `{"pattern":"`+key+`","reason":"scraping","expires_in":"1h"}`, 201)
	d := ask(t, c, client.Check{Key: key})
	if d.Outcome != client.Blocked || d.Block == nil || d.Block.Pattern != key || d.Block.Reason != "scraping" || d.Block.ExpiresAt.IsZero() || d.RetryAfter <= 0 {
		t.Errorf("blocked: %+v", d)
	}
	n.Do(t, "POST", "/v1/exemptions", `{"pattern":"`+key+`","reason":"ours"}`, 201)
	d = ask(t, c, client.Check{Key: key, Fresh: true})
	if !d.Allowed || d.Exemption == nil || d.Exemption.Reason != "ours" || len(d.Warnings) != 1 {
		t.Errorf("exempt: %+v", d)
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
		t.Error("a key that is not UTF-8 was sent, and so counted as another")
	}
}

func TestWithTokenAuthenticatesAndAMissingTokenIsAnOutage(t *testing.T) {
	n := testnode.Start(t, "--check-auth", "token")
	secret := tokenOf(t, n, "check")
	if d := ask(t, connectTo(t, n.Check, client.WithToken(secret)), client.Check{Key: fresh("user")}); !d.Allowed {
		t.Errorf("with its token: %+v", d)
	}
	_, err := connectTo(t, n.Check).Check(t.Context(), client.Check{Key: fresh("user")})
	var outage *client.OutageError
	var problem *client.Problem
	if !errors.As(err, &outage) || outage.Attempts != 1 || !errors.As(err, &problem) || problem.Status != 401 {
		t.Errorf("without: %v", err)
	}
	d, err := connectTo(t, n.Check, client.WithOutage(client.FailOpen)).Check(t.Context(), client.Check{Key: "user:a"})
	if err != nil || !d.Allowed || d.Outage == nil {
		t.Errorf("without, failing open: %+v, %v", d, err)
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
		t.Errorf("first: %+v", d)
	}
	if !errors.As(items[1].Err, &problem) || problem.Field != "key" || items[1].Decision != nil {
		t.Errorf("second: %+v", items[1])
	}
	if d := items[2].Decision; d.Outcome != client.Limited {
		t.Errorf("third: %+v", d)
	}
	if d := items[3].Decision; len(d.Rules) != 1 {
		t.Errorf("fourth: %+v", d)
	}
	items, err = c.Batch(t.Context(), []client.Check{{Key: key}, {Key: fresh("user")}})
	if err != nil || !items[0].Decision.FromCache || items[1].Decision.FromCache || !items[1].Decision.Allowed {
		t.Errorf("with one that is remembered: %+v, %v", items, err)
	}
	for _, n := range []int{0, client.MaxBatch + 1} {
		if _, err := c.Batch(t.Context(), make([]client.Check, n)); err == nil {
			t.Errorf("a batch of %d was taken", n)
		}
	}
}

func TestConcurrentChecksAreChargedOnceEach(t *testing.T) {
	c, key := connect(t, client.WithMemory(0)), fresh("user")
	verdicts := make(chan bool)
	for range 32 {
		go func() {
			d, err := c.Check(context.WithoutCancel(t.Context()), client.Check{Key: key})
			if err != nil {
				t.Error(err)
			}
			verdicts <- err == nil && d.Allowed
		}()
	}
	allowed := 0
	for range 32 {
		if <-verdicts {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d were allowed by 3/1d", allowed)
	}
}

func TestNewRejectsBadURLsAndOptions(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:8080", "ftp://host", "http://", "http://user:secret@host", "http://host?a=b", "http://host:port"} {
		if _, err := client.New(url); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
	for name, option := range map[string]client.Option{
		"no time": client.WithTimeout(0), "negative retries": client.WithRetries(-1), "a negative memory": client.WithMemory(-1),
		"an unknown choice": client.WithOutage(3), "no client": client.WithHTTPClient(nil), "a token of two lines": client.WithToken("a\nb"), "a token with a NUL": client.WithToken("a\x00b"),
	} {
		if _, err := client.New("http://127.0.0.1:8080", option); err == nil {
			t.Errorf("%s was taken", name)
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
			t.Errorf("%q: %v %+v", parent, err, problem)
		}
	}
}
