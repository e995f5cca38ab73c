package nodes

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAPulseTellsWhatNinetyNineInAHundredWereFasterThan(t *testing.T) {
	var p Pulse
	for range 99 {
		p.Add(time.Millisecond)
	}
	p.Add(time.Second)
	answers, slow := p.Take()
	if answers != 100 || slow < time.Millisecond || slow > 1500*time.Microsecond {
		t.Errorf("%d answers, 99 in 100 under %s", answers, slow)
	}
	if answers, slow := p.Take(); answers != 0 || slow != 0 {
		t.Errorf("afresh: %d answers, %s", answers, slow)
	}
}

func TestABucketsEdgeLiesAboveWhatIsInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := time.Duration(rapid.Int64Range(1, int64(time.Minute/time.Microsecond)).Draw(t, "us")) * time.Microsecond
		edge := upperEdge(bucketOf(took))
		if edge <= took || float64(edge) > 1.5*float64(took)+float64(time.Microsecond) {
			t.Fatalf("%s falls under %s", took, edge)
		}
	})
}
