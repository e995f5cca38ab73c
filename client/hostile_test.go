package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-dev/stint/client"
)

// Visitors of a site may choose keys: one that JSON cannot hold, or that fills the question, must
// not fail others of its batch.
func TestInvalidKeyDoesNotFailItsBatch(t *testing.T) {
	t.Run("not UTF-8", func(t *testing.T) { invalidKey(t, "user:\xff") })
	t.Run("8 MiB", func(t *testing.T) { invalidKey(t, "user:"+strings.Repeat("x", 8<<20)) })
}

func invalidKey(t *testing.T, bad string) {
	c, good := connect(t, client.WithOutage(client.FailOpen)), fresh("user")
	var problem *client.Problem
	isAbout := func(err error, field string) bool { return errors.As(err, &problem) && problem.Field == field }
	if _, err := c.Check(t.Context(), client.Check{Key: bad}); !isAbout(err, "key") || client.ReplyTo(nil, err).Status != http.StatusBadRequest {
		t.Errorf("Check: got %v, want a problem with the key", err)
	}
	if _, err := c.CheckAll(t.Context(), client.CombinedCheck{Keys: []client.CombinedKey{{Key: good}, {Key: bad}}}); !isAbout(err, "keys[1].key") {
		t.Errorf("CheckAll: got %v, want a problem with keys[1].key", err)
	}
	if _, err := c.Report(t.Context(), client.Report{Key: bad, Outcome: "failed"}); !isAbout(err, "key") {
		t.Errorf("Report: got %v, want a problem with the key", err)
	}
	items, err := c.Batch(t.Context(), []client.Check{{Key: bad}, {Key: good}})
	if err != nil || !isAbout(items[0].Err, "key") || items[1].Err != nil || !items[1].Decision.Allowed {
		t.Errorf("Batch: got %+v, %v", items, err)
	}
	reported, err := c.ReportBatch(t.Context(), []client.Report{{Key: bad, Outcome: "failed"}, {Key: good, Outcome: "failed"}})
	if err != nil || !isAbout(reported[0].Err, "key") || reported[1].Err != nil || reported[1].Reported.Key != good {
		t.Errorf("ReportBatch: got %+v, %v", reported, err)
	}
	if items, err := c.Batch(t.Context(), []client.Check{{Key: bad}}); err != nil || !isAbout(items[0].Err, "key") {
		t.Errorf("Batch of one invalid key: got %+v, %v", items, err)
	}
}

// Eight values that visitors choose must fit into one question.
func TestHostileValuesAreAccepted(t *testing.T) {
	c, request := connect(t), client.Request{Path: "/" + strings.Repeat(`\`, 9000), Agent: strings.Repeat(`"`, 3000), Host: strings.Repeat(`"`, 300)}
	for _, char := range []string{"\x01", "\xff", "\"", "\xffa", "\xff\"", "x", "\U0001F600", "\u2028"} {
		values, meta := map[string]string{}, map[string]string{}
		for _, name := range "abcdefgh" {
			values[string(name)], meta[string(name)] = strings.Repeat(char, 100_000), strings.Repeat(`"`, 300)
		}
		if _, err := c.Report(t.Context(), client.Report{Key: fresh("user"), Outcome: "failed", Request: request, Values: values, Meta: meta}); err != nil {
			t.Errorf("a report of %q: %v", char, err)
		}
		if d, err := c.Check(t.Context(), client.Check{Key: fresh("user"), Request: request, Values: values, Meta: meta}); err != nil || !d.Allowed {
			t.Errorf("a check of %q: got %+v, %v", char, d, err)
		}
	}
}

func TestLongestKeyIsChecked(t *testing.T) {
	key := fresh("user")
	if d, err := connect(t).Check(t.Context(), client.Check{Key: key + strings.Repeat("x", 512-len(key))}); err != nil || !d.Allowed {
		t.Errorf("a key of 512 bytes: got %+v, %v", d, err)
	}
}

func TestOversizedAnswerIsAnOutage(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"decision":"allowed","allowed":true,"warnings":["` + strings.Repeat("x", 2<<20) + `"]}`))
	}))
	t.Cleanup(s.Close)
	var outage *client.OutageError
	if _, err := connectTo(t, s.URL).Check(t.Context(), client.Check{Key: "a"}); !errors.As(err, &outage) {
		t.Errorf("an answer of 2 MiB: got %v, want an outage", err)
	}
}
