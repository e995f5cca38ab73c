package bench_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// watched is how long each load is profiled.
const watched = 10 * time.Second

// BenchmarkProfile writes the profile by which the compiler decides what to inline in a
// release to the file that STINT_BENCH_PROFILE names: of a node in memory and of one on
// Redis under all that a check can come to, in equal parts. See `make pgo`.
func BenchmarkProfile(b *testing.B) {
	to := cmp.Or(os.Getenv("STINT_BENCH_PROFILE"), filepath.Join(b.TempDir(), "release.pgo"))
	p := build(b)
	merge := []string{"tool", "pprof", "-proto", "-output", to}
	for at, of := range []struct {
		settings []string
		loads    []load
	}{
		{nil, []load{
			{"allow:", manyKeys, "rules", 1, 64, ""}, {"limited:", manyKeys, "rules", 1, 64, ""}, {"blocked:", manyKeys, "rules", 1, 64, ""},
			{"allow:", manyKeys, "none", 64, 64, ""}, {"ip:", manyKeys, "rules", 1, 64, "forward"},
		}},
		{distributed(b), []load{
			{"allow:", manyKeys, "none", 1, 64, ""}, {"allow:", manyKeys, "none", 1, 256, ""}, {"allow:", manyKeys, "rules", 1, 256, ""},
			{"limited:", 1000, "none", 1, 64, ""}, {"allow:", manyKeys, "none", 64, 64, ""},
		}},
	} {
		n := startNode(b, p, append(of.settings, "--trusted-proxies", "127.0.0.1")...)
		n.furnish(b)
		n.policy(b, "ip", `"10/s","100/m","400/h","800/d"`)
		for i, l := range of.loads {
			file := filepath.Join(b.TempDir(), fmt.Sprintf("%d-%d.pprof", at, i))
			done := make(chan []byte, 1)
			go func() { done <- n.profile(b) }()
			l.wrk(b, n, watched+time.Second)
			profile := <-done
			if profile == nil {
				b.Fatalf("there is no profile of %+v", l)
			}
			if err := os.WriteFile(file, profile, 0o600); err != nil {
				b.Fatal(err)
			}
			merge = append(merge, file)
		}
	}
	if out, err := exec.CommandContext(b.Context(), "go", merge...).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

// profile returns a profile of the processor time of the next seconds, nil if n gives none.
func (n node) profile(b *testing.B) []byte {
	b.Helper()
	status, profile := call(b, http.MethodGet, "http://"+n.admin+"/debug/pprof/profile?seconds="+strconv.Itoa(int(watched.Seconds())), "")
	if status != http.StatusOK {
		return nil
	}
	return profile
}

// guided measures what the profile saves: the path of a check without the network, built
// with it and without.
func guided(b *testing.B, r *report) {
	r.begin("The profile that releases are built by", fmt.Sprintf("Processor time of a request without the network, built with the profile, as a share of that without it; %d runs of each, alternating; the medians are given.", minPairs))
	names := []string{"empty", "allowed", "limited", "blocked"}
	costs := map[string]map[string][]float64{releasedBy: {}, "off": {}}
	for range minPairs {
		for _, by := range []string{releasedBy, "off"} {
			found := run(b, "api", "BenchmarkServed$/^(empty|allowed|limited|blocked)$", "0.3s", "-pgo", by)
			for _, name := range names {
				costs[by][name] = append(costs[by][name], found.of(b, "BenchmarkServed/"+name, "least-cpu-ns/op"))
			}
		}
	}
	for _, name := range names {
		with, without := median(costs[releasedBy][name]), median(costs["off"][name])
		r.add(name, fmt.Sprintf("%.2f (%.0f of %.0f ns)", with/without, with, without))
	}
}

// settled is how long a node has been idle when its memory is read.
const settled = time.Minute

func idle(b *testing.B, r *report) {
	r.begin("An idle node", "The released program with an empty folder; resident memory as the kernel counts it, that of the program's file included, MB of 2^20 bytes.")
	n := startNode(b, build(b))
	time.Sleep(settled)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.pid))
	if err != nil {
		b.Fatal(err)
	}
	megabytes := func(what string) float64 { return number(status, what+`:\s+(\d+) kB`) / 1024 }
	r.atMost("resident, a minute after its start", megabytes("VmRSS"), 50, "%.1f", fmt.Sprintf("MB, of which %.1f are its own", megabytes("RssAnon")))
}
