package wire_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/wire"
)

// TestBoundsAreThoseOfTheLogAndTheClient compares what the packages repeat because they may not
// import each other.
func TestBoundsAreThoseOfTheLogAndTheClient(t *testing.T) {
	for name, bound := range map[string][2]int64{
		"MaxCost":         {wire.MaxCost, timestamplog.MaxCost},
		"MaxUsage":        {wire.MaxUsage, timestamplog.MaxUsage},
		"MaxID":           {wire.MaxID, timestamplog.MaxID},
		"MaxWait":         {time.Duration(wire.MaxWait).Milliseconds(), timestamplog.MaxWait},
		"client.MaxWait":  {int64(wire.MaxWait), int64(client.MaxWait)},
		"client.MaxKeys":  {wire.MaxKeys, client.MaxKeys},
		"client.MaxBatch": {wire.MaxBatch, client.MaxBatch},
	} {
		if bound[0] != bound[1] {
			t.Errorf("%s: got %d, elsewhere %d", name, bound[0], bound[1])
		}
	}
}
