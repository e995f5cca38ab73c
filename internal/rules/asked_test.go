package rules

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// What policies look at is asked for, and a policy that is off asks for nothing.
func TestSelectorAsksForWhatPoliciesLookAt(t *testing.T) {
	policy := func(mode Mode, when conditions.Texts, evidence, also []string) *Policy {
		w, err := conditions.Parse(when)
		if err != nil {
			t.Fatal(err)
		}
		p := &Policy{Mode: mode, When: w, Rules: Stack{{Limit: 1, Window: 1}}}
		if p.Evidence, err = ParseEvidence(evidence); err == nil {
			p.Also, err = ParseAlso(also)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s := NewSelector([]*Policy{
		policy(Enforce, conditions.Texts{"cookie:sid": {"not *"}, "path": {"/a"}}, nil, []string{"ip+header:X-Key", "asn 5/m"}),
		policy(Shadow, nil, []string{`5 query:q "a b" not c`, "3 country NL"}, nil),
		policy(Off, conditions.Texts{"host": {"*"}}, nil, nil),
	})
	if got := fmt.Sprint(s.Asked(), s.AskedNamed(), s.AsksOrigin()); got != "[path country asn header:x-key query:q cookie:sid] [cookie:sid header:x-key query:q] true" {
		t.Error(got)
	}
}

func TestEvidenceKeepsPatternsThatAreNamesOfNewAttributes(t *testing.T) {
	for _, text := range []string{"5 agent bot", "5 agent *curl* not bot distinct path", "5 header:x-a not * query:q *b*"} {
		items, err := ParseEvidence([]string{text})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if again, err := ParseEvidence(items.Strings()); err != nil || again[0].String() != items[0].String() {
			t.Errorf("%s is written as %q, which is read as %v, %v", text, items.Strings(), again, err)
		}
	}
}

// A value that is known to be missing was said; what the node finds by itself need not be.
func TestMissingValuesAreNotUnsaid(t *testing.T) {
	everyKey, err := keys.Parser{}.Pattern("*")
	if err != nil {
		t.Fatal(err)
	}
	k, err := keys.Parser{}.Key("ip:203.0.113.7")
	if err != nil {
		t.Fatal(err)
	}
	w, err := conditions.Parse(conditions.Texts{"header:x-client": {"not *"}, "country": {"NL"}})
	if err != nil {
		t.Fatal(err)
	}
	stack, err := ParseStack([]string{"9/h distinct country"})
	if err != nil {
		t.Fatal(err)
	}
	plain := conditions.NewRequest("/", "", "", "")
	for _, c := range []struct {
		request *conditions.Request
		warns   bool
	}{{plain.Saying(conditions.Header("x-client")), false}, {plain.Saying(conditions.Header("x-client"), "a"), false}, {plain, true}} {
		s, warned := NewSelector([]*Policy{{ID: 1, Name: "p", Mode: Enforce, Match: []keys.Pattern{everyKey}, When: w, Rules: stack}}), ""
		for range UnsaidAfter + 1 {
			warned += s.Notice(Subject{Key: k}, c.request, nil, "")
		}
		if (warned != "") != c.warns {
			t.Errorf("%v: warned %q, want a warning: %v", c.request, warned, c.warns)
		}
	}
}

func TestFurtherKeysOfSeveralValues(t *testing.T) {
	key, err := keys.Parser{}.Key("ip:203.0.113.7")
	if err != nil {
		t.Fatal(err)
	}
	r := conditions.NewRequest("/a|b%", "GET", "Me", "").Saying(conditions.Header("X-Key"), "Secret").With(conditions.Found{ASN: "64500"})
	for text, want := range map[string]string{
		"ip+path": "ip+path:203.0.113.7|/a%7Cb%25", "asn": "as:64500", "agent": "agent:me", "path+account": "path+account:/a%7Cb%25|alice",
		"header:x-key": "header:x-key:" + hashed("Secret"), "ip+nothing": "",
	} {
		d, err := ParseDerived(text + " 5/m")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		derived, found := d.KeyOf(key, r, map[string]string{"account": "alice"})
		if derived.String() != want || found != (want != "") || found && !d.Makes(derived) || d.String() != text+" 5/1m" {
			t.Errorf("%s: got %s, want %s", text, derived, want)
		}
		if text == "ip+path" && (keys.Parser{}).ClientOf(derived) != key {
			t.Errorf("the client of %s is %s", derived, (keys.Parser{}).ClientOf(derived))
		}
	}
	for _, text := range []string{"ip", "ip+ip", "ip+", "+path", "a+b+c+d+e", "ip+net:/24", "header:"} {
		if _, err := ParseDerived(text); err == nil {
			t.Errorf("%s is a further key", text)
		}
	}
}
