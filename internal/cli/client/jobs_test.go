package client

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

// A server answers before a long job has ended: who runs it waits for the end all the same.
func TestARunOfALongJobIsWaitedFor(t *testing.T) {
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
	run, err := c.Jobs.Run(t.Context(), "tidy")
	if err != nil || run.ID != 7 || run.Result != "did it" || lists != 2 {
		t.Errorf("got %+v after %d lists, %v", run, lists, err)
	}
}
