package redislog_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/testenv"
	"github.com/stint-dev/stint/internal/timestamplog/logtest"
)

// clusterOfOne returns a Redis Cluster of a single node that has every slot.
func clusterOfOne(t *testing.T) *testenv.RedisServer {
	t.Helper()
	server := testenv.DedicatedRedis(t, "--cluster-enabled", "yes")
	admin := connect(t, server)
	if err := admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is whole", func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	server.URL = strings.Replace(server.URL, "redis://", "redis+cluster://", 1)
	server.URL = strings.TrimSuffix(server.URL, "/0")
	return server
}

func TestContractOnACluster(t *testing.T) {
	server := clusterOfOne(t)
	logtest.Run(t, func(t *testing.T) logtest.Harness {
		h := newExpiring(t, server)
		h.Steps = 20
		return h
	})
}
