package wire

import (
	"strings"
	"testing"
	"time"
)

func TestOffenderColumnsIncludeBlockAndOrigin(t *testing.T) {
	at := At(time.UnixMilli(1_790_000_000_000))
	row := func(o Offender) string {
		var cells []string
		for _, c := range OffenderColumns {
			if cell := c.Cell(&o); cell != "" {
				cells = append(cells, c.Name+"="+cell)
			}
		}
		return strings.Join(cells, " ")
	}
	full := Offender{
		Key: "ip:192.0.2.1", Offences: 3, OffencesMax: 4, Allowed: 1, RefusedRatio: 0.75, Policy: "default", Decision: Limited, RefusedBy: "1/1h", FirstAt: at, LastAt: at,
		Block: &Entry{}, Exemption: &Entry{ExpiresAt: at}, Plan: "gold", BlockedScopes: []string{"login", "reset"}, OwnLimit: &OwnLimit{Rules: []string{"5/1s", "9/1m"}},
		Escalation: &EscalationStatus{Level: 2, Count: 3, Threshold: 5, NextBlock: Duration(time.Hour)}, Origin: &Origin{Country: "NL", ASN: 64500, Network: "Example", Host: "a.example"},
	}
	want := "key=ip:192.0.2.1 offences=3 offences_max=4 allowed=1 refused_ratio=0.7500 policy=default decision=limited refused_by=1/1h first_at=" + at.String() + " last_at=" + at.String() +
		" blocked_until=permanently escalation_level=2 country=NL asn=64500 network=Example host=a.example exempt_until=" + at.String() + " plan=gold own_limit=5/1s 9/1m escalation_next_block=1h at 3 of 5 blocked_scopes=login reset"
	if got := row(full); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := row(Offender{Key: "token:a"}); !strings.HasPrefix(got, "key=token:a offences=0") || strings.Contains(got, "until") || strings.Contains(got, "asn") {
		t.Errorf("an offender with few fields: got %s", got)
	}
}
