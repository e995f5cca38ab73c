package bench_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Profile-guided optimisation: cmd/stint-server, which is what is installed and released, has
// a profile beside its main.go, by which go build decides what to inline.

// guidedLoads are what the profile is taken from and what it is judged by: all that a check
// can come to, in about equal parts, and what gateways ask.
var guidedLoads = []load{
	{"allow:", manyKeys, "rules", 1, 64, ""},
	{"allow:", manyKeys, "none", 1, 64, ""},
	{"limited:", manyKeys, "rules", 1, 64, ""},
	{"blocked:", manyKeys, "rules", 1, 64, ""},
	{"ip:", manyKeys, "rules", 1, 64, "forward"},
}

// profileLasts is how long each load is watched.
const profileLasts = 10 * time.Second

// BenchmarkProfile takes the profile of one node in memory and of one on Redis, under every
// load, and writes it to the file that STINT_BENCH_PROFILE names, as `make pgo` has it.
func BenchmarkProfile(b *testing.B) {
	path := cmp.Or(os.Getenv("STINT_BENCH_PROFILE"), filepath.Join(b.TempDir(), "default.pgo"))
	p := build(b)
	proxies := []string{"--trusted-proxies", "127.0.0.1"}
	args := []string{"tool", "pprof", "-proto", "-output", path}
	for at, settings := range [][]string{proxies, append(distributed(b), proxies...)} {
		n := startNode(b, p, settings...)
		n.furnish(b)
		n.policy(b, "ip", `"10/s","100/m","400/h","800/d"`)
		for i, l := range guidedLoads {
			file := filepath.Join(b.TempDir(), fmt.Sprintf("%d-%d.pprof", at, i))
			done := make(chan error, 1)
			go func() { done <- n.profile(b, file) }()
			l.wrk(b, n, profileLasts+time.Second)
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			args = append(args, file)
		}
	}
	if out, err := exec.CommandContext(b.Context(), "go", args...).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

// profile writes a profile of the next profileLasts to a file.
func (n node) profile(b *testing.B, path string) error {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+n.admin+"/debug/pprof/profile?seconds="+strconv.Itoa(int(profileLasts.Seconds())), http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %w: %s", response.StatusCode, err, text)
	}
	return os.WriteFile(path, text, 0o600)
}

// guided measures what the profile gains: the program as it is released beside the same one
// that was built without.
func guided(b *testing.B, r *report) {
	with := build(b)
	without := programs{server: filepath.Join(b.TempDir(), "unguided")}
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-pgo=off", "-o", without.server, serverCommand).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	r.begin("What the profile gains", fmt.Sprintf("`cmd/stint-server` as it is built, with the profile of `make pgo`, beside the same without it: processor time of the embedded node for each check. %d pairs of %s each; the medians are given.",
		minPairs, reservation))
	one, other := startNode(b, with, "--trusted-proxies", "127.0.0.1"), startNode(b, without, "--trusted-proxies", "127.0.0.1")
	for _, n := range []node{one, other} {
		n.furnish(b)
		n.policy(b, "ip", `"10/s","100/m","400/h","800/d"`)
	}
	for i, what := range []string{"allowed, detail rules", "allowed, detail none", "limited", "blocked", "forward auth"} {
		l := guidedLoads[i]
		l.wrk(b, one, reservation) // warm up
		l.wrk(b, other, reservation)
		var costs []float64
		var mine, theirs []asked
		for range minPairs {
			a, z := l.wrk(b, one, reservation), l.wrk(b, other, reservation)
			mine, theirs, costs = append(mine, a), append(theirs, z), append(costs, float64(a.cost)/float64(z.cost))
		}
		r.add(what, fmt.Sprintf("%.2f times the processor time (%.1f of %.1f µs; %.0fk of %.0fk/s)", median(costs),
			micros(typical(mine).cost), micros(typical(theirs).cost), typical(mine).rate/1e3, typical(theirs).rate/1e3))
	}
}
