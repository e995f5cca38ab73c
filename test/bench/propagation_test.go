package bench_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The blocks that propagation adds: feeders import some at a time, as a tool
// that follows somebody's list does, together 1,000 a second.
const (
	feeders     = 5
	perImport   = 20
	importEvery = 100 * time.Millisecond
	feeding     = 8 * time.Second
	lookEvery   = 5 * time.Millisecond
)

// propagation adds blocks on one node and sees how long after the
// acknowledgement the other node refuses the last one of each import.
func propagation(b *testing.B, r *report, from, to node) {
	w := &watcher{to: to, waiting: map[string]time.Time{}}
	var feed, watch sync.WaitGroup
	done := make(chan struct{})
	watch.Go(func() { w.run(b, done) })
	begin := time.Now()
	for f := range feeders {
		feed.Go(func() {
			first := begin.Add(importEvery * time.Duration(f) / feeders)
			for n := range int(feeding / importEvery) {
				time.Sleep(time.Until(first.Add(importEvery * time.Duration(n))))
				w.expect(importSome(b, from, fmt.Sprintf("late:%d-%d", f, n)))
			}
		})
	}
	feed.Wait()
	spent := time.Since(begin)
	close(done)
	watch.Wait()
	slices.Sort(w.took)
	added := feeders * perImport * int(feeding/importEvery)
	rest := fmt.Sprintf("ms (median %s, longest %s, of %d; seen by asking every %s; %.0f blocks/s were added, %d to an import)",
		round(percentile(w.took, 50)), round(w.took[len(w.took)-1]), len(w.took), lookEvery, float64(added)/spent.Seconds(), perImport)
	r.atMost("from a block's acknowledgement to the other node's refusal, p99", float64(percentile(w.took, 99))/1e6, 100, "%.0f", rest)
	r.add("the same as a histogram", histogram(w.took))
}

// importSome adds blocks of keys that begin with name and returns the last key
// once they are acknowledged.
func importSome(b *testing.B, n node, name string) (last string) {
	b.Helper()
	rows := make([]string, perImport)
	for i := range rows {
		last = fmt.Sprintf("%s-%d", name, i)
		rows[i] = fmt.Sprintf(`{"literal":true,"pattern":%q,"reason":"bench"}`, last)
	}
	n.admit(b, http.MethodPost, "/v1/blocks/import", "["+strings.Join(rows, ",")+"]")
	return last
}

// watcher asks a node again and again about the keys that it should refuse by
// now, all in one request.
type watcher struct {
	to      node
	mu      sync.Mutex
	waiting map[string]time.Time // by key, since when
	took    []time.Duration
}

func (w *watcher) expect(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[key] = time.Now()
}

func (w *watcher) keys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := make([]string, 0, len(w.waiting))
	for key := range w.waiting {
		keys = append(keys, key)
	}
	return keys
}

// run looks until done is closed and nothing is waited for.
func (w *watcher) run(b *testing.B, done <-chan struct{}) {
	fed := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	for until := time.Now().Add(feeding + 30*time.Second); time.Now().Before(until); time.Sleep(lookEvery) {
		ended := fed() // before the keys are read: none is added after it
		keys := w.keys()
		if len(keys) > 0 {
			w.look(b, keys)
		} else if ended {
			return
		}
	}
	b.Errorf("%d blocks did not arrive in time, want none", len(w.keys()))
}

func (w *watcher) look(b *testing.B, keys []string) {
	checks := make([]string, len(keys))
	for i, key := range keys {
		checks[i] = fmt.Sprintf(`{"key":%q,"peek":true}`, key)
	}
	_, text := call(b, http.MethodPost, "http://"+w.to.checks+"/v1/check/batch", `{"checks":[`+strings.Join(checks, ",")+`]}`)
	now := time.Now()
	var answer struct{ Decisions []struct{ Decision string } }
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Decisions) != len(keys) {
		b.Errorf("the batch was answered %q: %v", text, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, d := range answer.Decisions {
		if d.Decision == "blocked" {
			w.took = append(w.took, now.Sub(w.waiting[keys[i]]))
			delete(w.waiting, keys[i])
		}
	}
}
