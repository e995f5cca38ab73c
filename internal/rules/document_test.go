package rules

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// wholeDocument has every field of a policy. Such a policy would not be valid.
func wholeDocument() wire.PolicyRequest {
	return wire.PolicyRequest{
		Name: "login", Match: []string{"ip:*"}, Outcome: "login_failed", Scope: "login", Rules: []string{"5/1m", "50/1d"}, Also: []string{"account 10/1h"}, Evidence: []string{"20 path /login"},
		When: wire.PolicyWhen{Path: []string{"/login"}, Method: []string{"post"}, Agent: []string{"curl*"}, Host: []string{"example.com"}},
		Mode: "shadow", OnFailure: "deny", Algorithm: "token_bucket",
		Options: wire.PolicyOptions{Burst: 9, CountRefused: true, WindowStart: "first_request", Variant: "queue"},
		Escalation: &wire.Escalation{
			Threshold: 3, Window: wire.Duration(time.Hour), Duration: wire.Duration(time.Minute), Factor: 1.5, MaxDuration: wire.Duration(25 * time.Hour),
			DecayAfter: wire.Duration(90 * time.Second),
		},
	}
}

func TestEveryFieldOfADocumentSurvivesItsPolicy(t *testing.T) {
	want := wholeDocument()
	for _, v := range []any{want, want.When, want.Options, *want.Escalation} {
		for field, value := range reflect.ValueOf(v).Fields() {
			if value.IsZero() {
				t.Errorf("%T.%s: wholeDocument does not have it", v, field.Name)
			}
		}
	}
	p, err := ReadDocument(&want, keys.Parser{}.Pattern)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Document(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
