package rules

import (
	"testing"

	"github.com/go-json-experiment/json"
)

// TestStoredDocumentIsThatOfEarlierVersions compares with a text that the version of schema 10 wrote: nodes of both run together.
func TestStoredDocumentIsThatOfEarlierVersions(t *testing.T) {
	for _, text := range []string{
		`{"name":"api","match":["token:*"],"when":{"path":["/a"],"method":["get"]},"outcome":"failed","scope":"login","rules":["5/1s"],"also":["net:/24"],` +
			`"mode":"shadow","on_failure":"deny","algorithm":"token_bucket","options":{"burst":9},` +
			`"escalation":{"threshold":3,"window_ms":3600000,"duration_ms":1000,"factor":1.5,"max_duration_ms":90000000,"decay_after_ms":90000}}`,
		`{"name":"api","match":["*"],"rules":[],"mode":"enforce","on_failure":"local","algorithm":"timestamp_log","escalation":null}`,
	} {
		p, err := ReadStored([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(p.Stored()); err != nil || string(got) != text {
			t.Errorf("got  %s, %v\nwant %s", got, err, text)
		}
	}
}
