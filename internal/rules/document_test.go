package rules

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// wholeDocument has every field of a policy. Such a policy would not be valid.
func wholeDocument() wire.PolicyRequest {
	return wire.PolicyRequest{
		Name: "login", Match: []string{"ip:*"}, Outcome: "login_failed", Scope: "login", Rules: []string{"5 tokens/1m", "50 tokens/calendar-day"}, Unit: "tokens", TimeZone: "Asia/Tokyo", Cost: 2, Hold: wire.Duration(time.Minute), OnExpiry: "keep", Also: []string{"account 10 tokens/1h"}, Evidence: []string{"20 path /login"},
		When: wire.PolicyWhen{Path: []string{"/login"}, Method: []string{"post"}, Agent: []string{"curl*"}, Host: []string{"example.com"}, Scheme: []string{"http"}, JA4: []string{"t13d*"}, Country: []string{"NL"}, ASN: []string{"64500"},
			Bot: []string{"openai/*"}, Category: []string{"search"}, Verified: []string{"not claimed"}, Attack: []string{"on"},
			Header: map[string][]string{"accept": {"*"}}, Query: map[string][]string{"q": {"not *"}}, Cookie: map[string][]string{"Sid": {"*"}}},
		Mode: "shadow", OnFailure: "deny", OnLimit: "block", Algorithm: "token_bucket",
		Options: wire.PolicyOptions{Burst: 9, CountRefused: true, WindowStart: "first_request", Variant: "queue"},
		Escalation: &wire.Escalation{
			Threshold: 3, Window: wire.Duration(time.Hour), Duration: wire.Duration(time.Minute), Factor: 1.5, MaxDuration: wire.Duration(25 * time.Hour),
			DecayAfter: wire.Duration(90 * time.Second), ChallengeLevels: 2,
		},
	}
}

// A policy that blocks at a limit has an escalation that does so, its own or the usual one.
func TestOnLimitBlockEscalatesAtTheFirstRefusal(t *testing.T) {
	d := wire.PolicyRequest{Name: "probes", Match: []string{"ip:*"}, Rules: []string{"20 points/1h"}, Evidence: []string{"20 path @secrets"}, OnLimit: "block"}
	p, err := FromDocument(&d, keys.Parser{}.Pattern)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.Escalation, BlockAtOnce()) {
		t.Errorf("got the escalation %+v, want %+v", p.Escalation, BlockAtOnce())
	}
	again := p.Document()
	if same, err := FromDocument(&again, keys.Parser{}.Pattern); err != nil || !reflect.DeepEqual(same.Document(), again) {
		t.Errorf("its document does not stay the same: %v", err)
	}
	d.Escalation = again.Escalation
	d.Escalation.Threshold = 5
	var wrong *FieldError
	if _, err := FromDocument(&d, keys.Parser{}.Pattern); !errors.As(err, &wrong) || wrong.Field != "escalation.threshold" {
		t.Errorf("a threshold of 5 beside on_limit block: got %v", err)
	}
	d.OnLimit = "limit"
	if p, err := FromDocument(&d, keys.Parser{}.Pattern); err != nil || p.OnLimit != LimitOnLimit || p.Document().OnLimit != "" {
		t.Errorf("on_limit limit is the usual case and said nowhere: %v", err)
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
