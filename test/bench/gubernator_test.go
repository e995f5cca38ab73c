package bench_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stint-dev/stint/test/servers"
)

// inMemory measures nodes that count in their memory: Stint and Gubernator, over HTTP and over
// gRPC, on which Gubernator's HTTP is a gateway.
func inMemory(b *testing.B, r *report, p programs, empty *peer) {
	b.Helper()
	address := freeAddress(b)
	stint := startNode(b, p, "--grpc-listen", address)
	stint.admit(b, http.MethodPut, "/v1/policies/peers", `{"match":["peers:*","envoy:bench:*"],"rules":["1000/m"]}`)
	overHTTP, overGRPC, pid := startGubernator(b)
	asked := peerCheck
	asked.door = "gubernator"
	r.peers(b, "Checks over HTTP in memory", empty,
		&peer{name: "Stint, the exact log", node: stint, load: peerCheck},
		&peer{name: "Gubernator, token buckets", node: node{checks: overHTTP, pid: pid}, load: asked})

	pair := rateLimitService.dial(b, address, stint.pid).beside(b, gubernatorService.dial(b, overGRPC, pid))
	r.begin("Checks over gRPC in memory", fmt.Sprintf("The same limit and keys, a call for each check, on 8 connections with 64 callers whose client takes little of the machine; both alternately, %d times for %s; the medians are given. "+
		"Stint is asked by Envoy's Rate Limit Service and Gubernator by its own.", minPairs, runTime))
	for _, one := range []struct {
		name string
		rated
	}{{"Stint, the exact log", pair.own}, {"Gubernator, token buckets", pair.other}} {
		r.add(one.name, fmt.Sprintf("%.1fk/s (%.1f µs of the server's processor time, p99 %.2f ms)", one.rate/1e3, micros(one.cost), millis(one.p99)))
	}
	r.add("Stint's rate as a multiple of the other's", fmt.Sprintf("%.1f", pair.rate))
}

// startGubernator runs a node of Gubernator with room for twice the keys.
func startGubernator(b *testing.B) (overHTTP, overGRPC string, pid int) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "gubernator")
	buildPeer(b, program, "./gubernator")
	overHTTP, overGRPC = freeAddress(b), freeAddress(b)
	pid = start(b, program, overHTTP, overGRPC, strconv.Itoa(2*manyKeys))
	servers.Await(b, "Gubernator answers", func() bool {
		status, _ := call(b, http.MethodGet, "http://"+overHTTP+"/v1/HealthCheck", "")
		return status == http.StatusOK
	})
	return overHTTP, overGRPC, pid
}

// gubernatorService is Gubernator's own, by the numbers of the fields in its gubernator.proto.
var gubernatorService = grpcService{
	path: "/pb.gubernator.V1/GetRateLimits",
	request: func(key int) ([]byte, error) {
		const name, uniqueKey, hits, limit, duration = 1, 2, 3, 4, 5
		var one []byte
		one = protowire.AppendString(protowire.AppendTag(one, name, protowire.BytesType), "bench")
		one = protowire.AppendString(protowire.AppendTag(one, uniqueKey, protowire.BytesType), strconv.Itoa(key))
		one = protowire.AppendVarint(protowire.AppendTag(one, hits, protowire.VarintType), 1)
		one = protowire.AppendVarint(protowire.AppendTag(one, limit, protowire.VarintType), 1000)
		one = protowire.AppendVarint(protowire.AppendTag(one, duration, protowire.VarintType), 60_000)
		const requests = 1
		return protowire.AppendBytes(protowire.AppendTag(nil, requests, protowire.BytesType), one), nil
	},
	check: func(answer []byte) error {
		const responses, limit = 1, 2
		of, err := protoField(answer, responses)
		if err != nil {
			return err
		}
		one, size := protowire.ConsumeBytes(of)
		if size != len(answer)-1 {
			return fmt.Errorf("answered %q, which is not one response", answer)
		}
		of, err = protoField(one, limit)
		if err != nil {
			return err
		}
		if allows, _ := protowire.ConsumeVarint(of); allows != 1000 {
			return fmt.Errorf("answered %q, with the limit %d", answer, allows)
		}
		return nil
	},
}

// protoField returns what follows the tag of a field of a message.
func protoField(message []byte, field protowire.Number) ([]byte, error) {
	for rest := message; len(rest) > 0; {
		number, kind, size := protowire.ConsumeTag(rest)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		if number == field {
			return rest[size:], nil
		}
		rest = rest[size:]
		if size = protowire.ConsumeFieldValue(number, kind, rest); size < 0 {
			return nil, protowire.ParseError(size)
		}
		rest = rest[size:]
	}
	return nil, fmt.Errorf("answered %q, without field %d", message, field)
}
