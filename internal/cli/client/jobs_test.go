package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/wire"
)

// A server answers before a long job has ended. Run must wait for the end of the job.
func TestRunWaitsForALongJob(t *testing.T) {
	lists := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == wire.PathJobs+"/tidy/run":
			w.WriteHeader(http.StatusAccepted)
			w.Write([]byte(`{"id":7,"job":"tidy","finished_at":null}`))
		case r.URL.Path == wire.PathJobs+"/runs" && r.URL.Query().Get("job") == "tidy":
			if lists++; lists == 1 {
				w.Write([]byte(`{"items":[{"id":7,"job":"tidy","finished_at":null}],"next_cursor":null}`))
				return
			}
			w.Write([]byte(`{"items":[{"id":8,"job":"tidy","finished_at":null},{"id":7,"job":"tidy","result":"did it","finished_at":"2026-01-01T00:00:00Z"}],"next_cursor":null}`))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	c, err := New(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	run, err := RunJob(t.Context(), c, "tidy")
	if err != nil || run.ID != 7 || run.Result != "did it" || lists != 2 {
		t.Errorf("Run: got %+v after %d lists, %v", run, lists, err)
	}
}

// answering answers requests without a network, so that a test's clock moves while a client
// waits.
type answering func(r *http.Request) (status int, body string)

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// The run of a node that died never gets an end.
func TestRunStopsWaitingIfTheNodeDied(t *testing.T) {
	const run = `{"id":7,"job":"tidy","finished_at":null}`
	for name, test := range map[string]struct {
		listed string // in the tenth minute and later
		took   time.Duration
	}{
		"no other run":          {run, 16 * time.Minute},
		"a run on another node": {`{"id":8,"job":"tidy","node":"b","finished_at":null},` + run, 16 * time.Minute},
		"a later run":           {`{"id":8,"job":"tidy","finished_at":null},` + run, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New("http://stint.example", "", "")
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				c.conn.http.Transport = answering(func(r *http.Request) (int, string) {
					switch {
					case r.Method == http.MethodPost:
						return http.StatusAccepted, run
					case time.Since(began) < 10*time.Minute:
						return http.StatusOK, fmt.Sprintf(`{"items":[%s],"next_cursor":null}`, run)
					}
					return http.StatusOK, fmt.Sprintf(`{"items":[%s],"next_cursor":null}`, test.listed)
				})
				_, err = RunJob(t.Context(), c, "tidy")
				if err == nil || err.Error() != "the run did not end; its node may have stopped" {
					t.Errorf("Run: got %v", err)
				}
				if waited := time.Since(began).Round(time.Minute); waited != test.took { // of the fake clock
					t.Errorf("Run waited %s, want %s", waited, test.took)
				}
			})
		})
	}
}
