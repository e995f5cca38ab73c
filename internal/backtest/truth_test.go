package backtest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rowfile"
)

// zeros is a device without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestTruthBoundsItsRows(t *testing.T) {
	if _, err := backtest.ReadTruth(zeros{}, "zero", keys.Parser{}); !errors.Is(err, rowfile.ErrRowTooLong) {
		t.Errorf("a device without end: got %v", err)
	}
	row := "ip:192.0.2.1,scanner,1700000000\n"
	if _, err := backtest.ReadTruth(strings.NewReader("key,label,first_attack\n"+strings.Repeat(row, 100<<10)), "truth.csv", keys.Parser{}); err != nil {
		t.Errorf("a file of short rows: %v", err)
	}
}
