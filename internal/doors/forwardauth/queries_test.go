package forwardauth

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// FuzzQueriesAreRemembered asserts that a query says the same whether it was sent before or not,
// and among others.
func FuzzQueriesAreRemembered(f *testing.F) {
	for _, raw := range []string{
		"", "&", "policy=a&by=ip&by=header:X-Api-Key&cost=3&refuse=403&source=b&scope=c&id=header:X-Id", "policy=a&policy=b", "cost=0", "by=", "a=b", "policy=%zz", "source=%ff",
		"path=/a?policy=b&cost=0", "policy=a&path=/b&path=c", "&&path=", "path", "by=path&path", "xpath=/a", "policy=path=/a", "by=ip&by=ip", "policy=" + strings.Repeat("a", 2*maxKnownQuery),
	} {
		f.Add([]byte(raw))
	}
	known := queries{seed: maphash.MakeSeed()}
	f.Fuzz(func(t *testing.T, raw []byte) {
		fresh := queries{seed: known.seed}
		want, wantErr := fresh.parse(raw)
		for range 2 {
			got, err := known.parse(raw)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: got %+v, %v, want %+v, %v", raw, got, err, want, wantErr)
			}
		}
	})
}

func TestQueryTargetIsEverythingAfterPath(t *testing.T) {
	known := queries{seed: maphash.MakeSeed()}
	for raw, want := range map[string]string{
		"path=/a?path=/b&by=host": "/a?path=/b&by=host", "by=path&path=/a&path=/b": "/a&path=/b", "&path=": "", "policy=a": "", "policy=a&&path=%zz": "%zz",
	} {
		for range 2 {
			if got, err := known.parse([]byte(raw)); err != nil || got.Target != want {
				t.Errorf("%s: the target is %q, %v, want %q", raw, got.Target, err, want)
			}
		}
	}
}

func TestInvalidByParameterIsExplained(t *testing.T) {
	known := queries{seed: maphash.MakeSeed()}
	for raw, want := range map[string]string{
		"by=ip:X":         "by: ip takes no name behind a colon",
		"by=header":       "by: header needs a name; write header:NAME",
		"by=header:X%00":  "by: the name behind header: must be 1 to 64 letters, digits, - and _",
		"by=cookie:a/b":   "by: the name behind cookie: must be 1 to 64 letters, digits, dots, - and _",
		"by=header:a.b":   "by: the name behind header: must be 1 to 64 letters, digits, - and _",
		"by=path:":        "by: the name behind path: must be 1 to 64 letters, digits, - and _",
		"by=cookies":      "by: must be ip, header:NAME, plain-header:NAME, cookie:NAME, host, path, path:HEADER or method, or several of them with + between, as ip+path",
		"by=ip%2Bip":      "by: has the same part twice, or more than 4 parts with + between",
		"by=ip+nothing":   "by: must be ip, header:NAME, plain-header:NAME, cookie:NAME, host, path, path:HEADER or method, or several of them with + between, as ip+path",
		"by=host&by=host": "by: names host twice",
	} {
		if _, err := known.parse([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", raw, err, want)
		}
	}
}

func TestQueriesAreParsedConcurrently(t *testing.T) {
	known := queries{seed: maphash.MakeSeed()}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i := range 20 * querySlots {
				name := fmt.Sprint("policy-", i%(3*querySlots))
				if got, err := known.parse([]byte("policy=" + name)); err != nil || got.Policy != name {
					t.Errorf("parse of %s: got %+v, %v", name, got, err)
				}
			}
		})
	}
	wait.Wait()
}
