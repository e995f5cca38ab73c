package db_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// BulkJSON encodes by hand because reflection took a third of a flush's
// processor time; encoding/json is the reference.
func TestBulkJSONMatchesEncodingJSON(t *testing.T) {
	rows := [][]any{
		{1, int64(-1 << 63), uint64(1 << 63), "", "k:\"\\\n\x01\u2028ä😀", offences.EscalationBlocked, nil, true},
		{},
		{"one"},
	}
	want, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := db.BulkJSON(rows); err != nil || got != string(want) {
		t.Errorf("BulkJSON() = %s, want %s, %v", got, want, err)
	}
	if got, err := db.BulkJSON(nil); err != nil || got != "[]" {
		t.Errorf("BulkJSON of no rows = %q, %v, want []", got, err)
	}
	if got, err := db.BulkJSON([][]any{{[]byte{0, 255}, []byte{}, []byte(nil)}}); err != nil || got != `[["00ff","",null]]` {
		t.Errorf("BulkJSON of bytes = %s, %v", got, err)
	}
	if _, err := db.BulkJSON([][]any{{"\xff"}}); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("BulkJSON of invalid UTF-8: got %v, want an error", err)
	}
}
