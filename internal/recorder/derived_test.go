package recorder

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/gate"
)

func TestOffenceOfAFurtherKeyIsNotCountedForTheKeyOfTheCheck(t *testing.T) {
	r := testRecorder(Options{})
	k, network, account := key(t, "ip:203.0.113.7"), key(t, "net:203.0.113.0/24"), key(t, "account:alice")
	refused := limited(k, noon, 1)
	refused.Derived = &network
	r.Record(refused)
	reported := limited(k, noon, 1)
	reported.Derived, reported.IsAdditional, reported.Reported = &account, true, "login_failed"
	r.Record(reported)
	shadowed := allowed(k, noon)
	shadowed.Shadow = &gate.Shadow{Policy: shadowPolicy, Outcome: gate.Limited, Answer: gate.Answer{At: noon, Derived: &network}}
	r.Record(shadowed)
	b := drained(r)
	found := map[string]int64{}
	for _, o := range b.Offences {
		found[fmt.Sprint(o.Policy, " ", o.Key)] += o.Count
	}
	if want := map[string]int64{"7 net:203.0.113.0/24": 1, "7 account:alice": 1, "8 net:203.0.113.0/24": 1}; fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("the offences are %v, want %v", found, want)
	}
	for _, each := range b.Keys {
		if each.Key != "ip:203.0.113.7" || each.Refused != 1 || each.Allowed != 1 {
			t.Errorf("the traffic is %+v", each)
		}
	}
}
