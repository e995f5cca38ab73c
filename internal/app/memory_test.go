package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// An attacker's keys reach the bound on memory. The node goes on, keeps the log of a
// blocked key and says on /readyz, on the overview and in its metrics that it forgets.
func TestANodeSaysThatItForgetsKeys(t *testing.T) {
	a := startApp(t, "--max-memory", "16MiB")
	send := func(method, url, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+edgeToken)
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	checks, admin := "http://"+a.CheckAddr().String(), "http://"+a.AdminAddr().String()
	check := func(key string) int {
		status, _ := send(http.MethodPost, checks+"/v1/check", `{"key":"`+key+`"}`)
		return status
	}
	if got := check("token:blocked"); got != http.StatusOK {
		t.Fatalf("the first check: %d", got)
	}
	if status, text := send(http.MethodPost, admin+"/v1/blocks", `{"pattern":"token:blocked","reason":"test"}`); status != http.StatusCreated {
		t.Fatalf("the block: %d %s", status, text)
	}
	if _, text := send(http.MethodGet, checks+"/readyz", ""); strings.Contains(text, `"memory"`) {
		t.Errorf("before the flood /readyz answers %s", text)
	}
	policy, _ := a.catalog.Selector().ByName("default")
	requests, results := make([]timestamplog.Request, 1000), make([]timestamplog.Result, 1000)
	for round := range 150 {
		for i := range requests {
			requests[i] = timestamplog.RequestOf(policy, fmt.Sprintf("ip:10.%d.%d.%d", round, i/250, i%250), 1)
		}
		if round == 100 { // those before may ask again, and so may go
			until(t, "the second of the first rule has passed", func() bool { return check("ip:10.99.3.249") == http.StatusOK })
		}
		a.backends.memory.Decide(t.Context(), requests, results)
	}
	stats := a.backends.memory.Memory()
	if stats.Forgotten == 0 || stats.Used > stats.Max*21/20 || stats.Max != 16<<20 {
		t.Errorf("%+v", stats)
	}
	if times, _, _ := a.backends.memory.Timestamps(t.Context(), timestamplog.LogIDOf(policy, "token:blocked"), 2); len(times) != 1 {
		t.Error("the log of a blocked key was forgotten")
	}
	if got := check("token:newcomer"); got != http.StatusOK {
		t.Errorf("a newcomer is answered %d", got)
	}
	if status, text := send(http.MethodGet, checks+"/readyz", ""); status != http.StatusOK || !strings.Contains(text, "idle longest were forgotten") {
		t.Errorf("/readyz answers %d %s", status, text)
	}
	if p := a.status.memoryHealth(); p.Trouble == "" {
		t.Errorf("the overview shows %+v", p)
	}
	if _, text := send(http.MethodGet, admin+"/metrics", ""); !strings.Contains(text, "stint_local_logs_max_bytes 1.6777216e+07") || strings.Contains(text, "stint_local_logs_forgotten_total 0\n") {
		t.Error("the metrics do not show the bound or what was forgotten")
	}
}
