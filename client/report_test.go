package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

func TestReportedOutcomesLimitTheChecksOfTheirKey(t *testing.T) {
	testnode.Shared().Do(t, "PUT", "/v1/policies/guessing", `{"match":["guesser:*"],"when":{"path":["/login"]},"outcome":"login_failed","rules":["2/d"]}`, 201)
	c, key := connect(t), fresh("guesser")
	login := client.Request{Path: "/login?next=/", Method: "POST"}
	first, err := c.Report(t.Context(), client.Report{Key: key, Outcome: "login_failed", Request: login, ID: "r-1", Meta: map[string]string{"user": "a\nb"}})
	if err != nil || len(first.Policies) != 1 || first.Policies[0].Result != client.ReportCharged || first.Refuses() || first.Policies[0].Rules[0].Remaining != 1 {
		t.Fatalf("Report: got %+v, %v", first, err)
	}
	items, err := c.ReportBatch(t.Context(), []client.Report{
		{Key: key, Outcome: "login_failed", Request: login, ID: "r-1"},
		{Key: key, Outcome: "Bad"},
		{Key: key, Outcome: "login_failed", Request: login, At: time.Now().Add(-time.Minute)},
		{Key: key, Outcome: "login_failed", Request: login},
		{Key: key, Outcome: "login_failed", Request: login, At: time.Now().Add(-time.Hour)},
	})
	if err != nil || len(items) != 5 {
		t.Fatal(items, err)
	}
	for i, want := range map[int]client.ReportResult{0: client.ReportReplayed, 2: client.ReportCharged, 3: client.ReportFull} {
		if r := items[i].Reported; r == nil || r.Policies[0].Result != want {
			t.Errorf("report %d: got %+v, %v, want %s", i, r, items[i].Err, want)
		}
	}
	var problem *client.Problem
	if !errors.As(items[1].Err, &problem) || problem.Field != "outcome" {
		t.Errorf("a report with a bad outcome: got %v", items[1].Err)
	}
	if r := items[3].Reported; !r.Refuses() || r.Policies[0].ID == "" || r.Policies[0].RetryAt.Before(time.Now()) {
		t.Errorf("a report into a full limit: got %+v", r)
	}
	if r := items[4].Reported; len(r.Policies) != 0 || r.Note == "" {
		t.Errorf("a report of an hour ago: got %+v", r)
	}
	if d := ask(t, c, client.Check{Key: key}); d.Outcome != client.Limited || d.Policy != "guessing" || d.Conditional {
		t.Errorf("a check after the reports: got %+v", d)
	}
}

func TestReportReturnsErrorsEvenIfFailingOpen(t *testing.T) {
	c := connect(t, client.WithOutage(client.FailOpen))
	var problem *client.Problem
	if _, err := c.Report(t.Context(), client.Report{Outcome: "login_failed"}); !errors.As(err, &problem) || problem.Field != "key" {
		t.Errorf("a report without a key: got %v", err)
	}
	var outage *client.OutageError
	away := connectTo(t, "http://127.0.0.1:1", client.WithOutage(client.FailOpen))
	if _, err := away.Report(t.Context(), client.Report{Key: "a", Outcome: "b"}); !errors.As(err, &outage) {
		t.Errorf("Report without a server: got %v, want an outage", err)
	}
	if _, err := c.ReportBatch(t.Context(), nil); err == nil {
		t.Error("ReportBatch of no reports: got no error")
	}
}

func TestFurtherKeysAreNamedInReportsAndDecisions(t *testing.T) {
	testnode.Shared().Do(t, "PUT", "/v1/policies/further", `{"match":["further:*"],"outcome":"mistyped","rules":["9/d"],"also":["account 1/d"]}`, 201)
	c, key := connect(t), fresh("further")
	values := map[string]string{"account": fresh("alice")}
	reported, err := c.Report(t.Context(), client.Report{Key: key, Outcome: "mistyped", Values: values})
	if err != nil || len(reported.Policies) != 2 || reported.Policies[0].DerivedKey != "" || reported.Policies[1].DerivedKey != "account:"+values["account"] {
		t.Fatalf("Report: got %+v, %v", reported, err)
	}
	d, err := c.Check(t.Context(), client.Check{Key: key, Values: values})
	if err != nil || d.Allowed || d.DerivedKey != "account:"+values["account"] {
		t.Errorf("Check: got %+v, %v", d, err)
	}
}
