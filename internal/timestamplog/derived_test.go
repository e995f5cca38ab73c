package timestamplog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

func describe(q *Request) string {
	name := "log"
	if q.Algorithm != nil {
		name = q.Algorithm.Name
	}
	return fmt.Sprint(name, q.Options, q.Rules, q.Retention)
}

func testRequest(t *testing.T) Request {
	t.Helper()
	stack, err := rules.ParseStack([]string{"1/s", "20/m"})
	if err != nil {
		t.Fatal(err)
	}
	return Request{LogID: LogID{Policy: 1}, Version: 1, Rules: stack, Retention: rules.Retention{Entries: 20, Window: time.Minute}}
}

func TestDerivedFollowsAllThatItIsDerivedFrom(t *testing.T) {
	var d Derived[string]
	q := testRequest(t)
	changes := []func(){
		func() {},
		func() { q.Retention.Entries = 800 },
		func() { q.Rules = q.Rules[:1] },
		func() { q.Rules[0].Limit = 7 }, // in place: the cache has a copy
		func() { q.Algorithm = algorithms.ByName("token_bucket") },
		func() { q.Options.Burst = 5 },
		func() { q.Version = 2 },
		func() { q.Policy, q.Rules[0].Limit = 2, 8 },
	}
	for i, change := range changes {
		change()
		if got, want := d.Of(&q, describe), describe(&q); got != want {
			t.Errorf("after change %d: got %q, want %q", i, got, want)
		}
	}
}

func TestDerivedIsDerivedOnce(t *testing.T) {
	var d Derived[string]
	a := testRequest(t)
	b := a
	b.Version = 2
	for _, q := range []*Request{&a, &b} {
		d.Of(q, describe)
	}
	again := func(*Request) string {
		t.Error("derived again")
		return ""
	}
	n := testing.AllocsPerRun(100, func() {
		d.Of(&a, again)
		d.Of(&b, again)
	})
	if n > 0 {
		t.Errorf("what is known costs %v allocations", n)
	}
}

func TestDerivedUsesBoundedMemory(t *testing.T) {
	var d Derived[string]
	q := testRequest(t)
	for id := range int64(3 * maxDerived) {
		q.Policy = id
		d.Of(&q, func(*Request) string { return "" })
	}
	n := 0
	d.known.Range(func(_, _ any) bool { n++; return true })
	if n > maxDerived {
		t.Errorf("%d are cached, want at most %d", n, maxDerived)
	}
}
