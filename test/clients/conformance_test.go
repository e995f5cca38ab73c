package clients

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

// want is what a call comes to; see clients/conformance/README.md.
type want struct {
	Decision   string `json:"decision"`
	Challenged bool   `json:"challenged"`
	Remaining  *int   `json:"remaining"`
	Refuses    *bool  `json:"refuses"`
	Outage     bool   `json:"outage"`
	Error      *struct {
		Status int    `json:"status"`
		Field  string `json:"field"`
	} `json:"error"`
}

// step is one call of a conversation.
type step struct {
	Check *struct {
		Key            string `json:"key"`
		Keys           []client.CombinedKey
		Policy         string            `json:"policy"`
		Cost           int               `json:"cost"`
		Peek           bool              `json:"peek"`
		Request        client.Request    `json:"request"`
		Values         map[string]string `json:"values"`
		Meta           map[string]string `json:"meta"`
		IdempotencyKey string            `json:"idempotency_key"`
	} `json:"check"`
	Report *struct {
		Key     string            `json:"key"`
		Outcome string            `json:"outcome"`
		Request client.Request    `json:"request"`
		Values  map[string]string `json:"values"`
		Meta    map[string]string `json:"meta"`
	} `json:"report"`
	Want want `json:"want"`
}

var repeated = regexp.MustCompile(`@(\d+)`)

var outages = map[string]client.OnOutage{"open": client.FailOpen, "closed": client.FailClosed}

func TestGo(t *testing.T) {
	t.Parallel()
	c := readCases(t)
	node := testnode.Start(t)
	putPolicies(t, node, c)
	faults := serveFaults(t, c)
	for name, outage := range outages {
		for _, conversation := range c.Conversations {
			t.Run(conversation.Name+", failing "+name, func(t *testing.T) {
				stint := connect(t, node.Check, client.WithOutage(outage), client.WithTimeout(time.Minute))
				text := strings.ReplaceAll(string(conversation.Steps), "$", rand.Text())
				text = repeated.ReplaceAllStringFunc(text, func(at string) string {
					n, _ := strconv.Atoi(at[1:])
					return strings.Repeat("x", n)
				})
				var steps []step
				if err := json.Unmarshal([]byte(text), &steps); err != nil {
					t.Fatal(err)
				}
				for i := range steps {
					steps[i].play(t, stint, name)
				}
			})
		}
		for i := range c.Faults {
			f := &c.Faults[i]
			t.Run(f.Name+", failing "+name, func(t *testing.T) {
				t.Parallel()
				url, timeout := fmt.Sprintf("%s/%d", faults, i), time.Minute
				if f.Server.Kind == "nobody" {
					url = "http://127.0.0.1:1"
				}
				if f.TimeoutMS > 0 {
					timeout = time.Duration(f.TimeoutMS) * time.Millisecond
				}
				stint := connect(t, url, client.WithOutage(outage), client.WithTimeout(timeout), client.WithRetries(0))
				d, err := stint.Check(t.Context(), client.Check{Key: "conformance:fault"})
				f.Want.expect(t, name, answerOf(d), err)
			})
		}
	}
}

func connect(t *testing.T, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func putPolicies(t *testing.T, node *testnode.Node, c *cases) {
	t.Helper()
	for name, policy := range c.Policies {
		node.Do(t, "PUT", "/v1/policies/"+name+"?confirm="+name, string(policy), 201)
	}
}

func answerOf(d *client.Decision) *client.Answer {
	if d == nil {
		return nil
	}
	return &d.Answer
}

func (s *step) play(t *testing.T, stint *client.Client, onOutage string) {
	t.Helper()
	if r := s.Report; r != nil {
		reported, err := stint.Report(t.Context(), client.Report{Key: r.Key, Outcome: r.Outcome, Request: r.Request, Values: r.Values, Meta: r.Meta})
		if s.Want.Refuses == nil {
			s.Want.expect(t, onOutage, nil, err)
		} else if err != nil || reported.Refuses() != *s.Want.Refuses {
			t.Errorf("%+v: got %+v, %v", r, reported, err)
		}
		return
	}
	q := s.Check
	if len(q.Keys) > 0 {
		d, err := stint.CheckAll(t.Context(), client.CombinedCheck{Keys: q.Keys, Peek: q.Peek})
		if err != nil {
			t.Fatal(err)
		}
		s.Want.expect(t, onOutage, &d.Answer, nil)
		return
	}
	d, err := stint.Check(t.Context(), client.Check{
		Key: q.Key, Policy: q.Policy, Cost: q.Cost, Peek: q.Peek, Request: q.Request, Values: q.Values, Meta: q.Meta, IdempotencyKey: q.IdempotencyKey, Fresh: true,
	})
	s.Want.expect(t, onOutage, answerOf(d), err)
	if n := s.Want.Remaining; n != nil && (err != nil || d.Rules[0].Remaining != *n) {
		t.Errorf("%.200v: got %+v, want %d remaining", q, d, *n)
	}
}

func (w *want) expect(t *testing.T, onOutage string, a *client.Answer, err error) {
	t.Helper()
	var problem *client.Problem
	switch {
	case w.Error != nil:
		if !errors.As(err, &problem) || problem.Status != w.Error.Status || problem.Field != w.Error.Field {
			t.Errorf("got %+v and %v, want an error %+v", a, err, *w.Error)
		}
	case err != nil:
		t.Errorf("got %v, want %+v", err, *w)
	case w.Outage:
		if decided := map[string]client.Outcome{"open": client.Allowed, "closed": client.Unavailable}[onOutage]; a.Outage == nil || a.Outcome != decided || a.Allowed != (decided == client.Allowed) {
			t.Errorf("got %+v, want an outage that is %s", a, decided)
		}
	case w.Challenged:
		if a.Outcome != client.Challenged || a.Allowed {
			t.Errorf("got %+v, want a challenge", a)
		}
	case a.Outage != nil || string(a.Outcome) != w.Decision:
		t.Errorf("got %+v, want %s", a, w.Decision)
	}
}
