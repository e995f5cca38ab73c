package redislog_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

func TestHealthWarnsOfSettingsThatWouldLiftLimits(t *testing.T) {
	tests := []struct {
		name string
		args []string
		warn []string // a part of each warning, in order
	}{
		{"nothing to say of a sound server", []string{"--appendonly", "yes"}, nil},
		{"eviction deletes logs", []string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"}, []string{"maxmemory-policy allkeys-lru"}},
		{"memory that is nearly full", []string{"--appendonly", "yes", "--maxmemory", "100000"}, []string{"bytes of memory"}},
		{"no file that keeps the logs", nil, []string{"append-only"}},
		{"a replica", []string{"--appendonly", "yes", "--replicaof", "127.0.0.1", "1"}, []string{"is a replica"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := servers.DedicatedRedis(t, test.args...)
			h, err := open(t, server, redislog.Options{}).Health(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(h.Nodes) != 1 || h.Nodes[0].Version == "" || h.Nodes[0].UsedMemory == 0 || h.Nodes[0].Addr != server.Addr {
				t.Errorf("got %+v, want one node with its version, memory and address", h.Nodes)
			}
			if len(h.Warnings) != len(test.warn) {
				t.Fatalf("the warnings are %q, want %d", h.Warnings, len(test.warn))
			}
			for i, want := range test.warn {
				if !strings.Contains(h.Warnings[i], want) {
					t.Errorf("the warning is %q, want %q in it", h.Warnings[i], want)
				}
			}
		})
	}
}
