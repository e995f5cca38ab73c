package sqlstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

func TestOpenSeedsNewDatabaseOnce(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		f.Another(t)
		policies, err := f.Policies.Policies(t.Context())
		if err != nil || len(policies) != 1 {
			t.Fatalf("policies: %v, %v", policies, err)
		}
		p := policies[0]
		if p.Name != "default" || p.Rules.String() != "1/1s 20/1m 200/1h 800/1d" || p.Match[0].String() != "*" || p.Version != 1 {
			t.Fatalf("seeded %+v", p)
		}
		if p.Retention.Entries != 800 || p.Retention.Window != 24*time.Hour {
			t.Fatalf("retention %+v", p.Retention)
		}
	})
}

func TestOpenDoesNotRestoreDeletedSeedPolicy(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		if err := f.Policies.DeletePolicy(t.Context(), storetest.Operator, "default", storetest.TagOf(t, f.Policies, "default")); err != nil {
			t.Fatal(err)
		}
		policies, err := f.Another(t).Policies.Policies(t.Context())
		if err != nil || len(policies) != 0 {
			t.Fatalf("policies: %v, %v", policies, err)
		}
	})
}

func TestOpenByFiveNodesConcurrentlySeedsOnce(t *testing.T) {
	url := servers.Postgres(t).URL
	var nodes sync.WaitGroup
	for range 5 {
		nodes.Go(func() {
			s, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if policies, err := s.Policies.Policies(t.Context()); err != nil || len(policies) != 1 || policies[0].Version != 1 {
				t.Errorf("got the policies %+v, %v, want one", policies, err)
			}
		})
	}
	nodes.Wait()
}
