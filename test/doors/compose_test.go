package doors

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// runComposeNginx runs nginx on deploy/compose/nginx.conf with other addresses.
func runComposeNginx(s *site, config string) {
	s.Helper()
	dir := s.TempDir()
	head := fmt.Sprintf("daemon off; master_process off; pid %s/pid; error_log stderr warn;\n", dir)
	paths := fmt.Sprintf("http {\n\taccess_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; "+
		"uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;", dir)
	execute(s.T, "nginx", "-p", dir, "-c", write(s.T, "nginx.conf", head+strings.Replace(config, "http {", paths, 1)))
}

// nginx asks the other node where one does not answer, which may have charged the request.
func TestComposeChargesOnceWhatTwoNodesAreAskedAbout(t *testing.T) {
	s := &site{T: t, node: direct(t).node, app: new(application)}
	var asked atomic.Int64
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		request, err := http.NewRequestWithContext(r.Context(), r.Method, s.node.Check+r.URL.String(), http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		request.Header = r.Header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		response.Body.Close()
		<-r.Context().Done() // nginx has given up
	}))
	t.Cleanup(silent.Close)
	text, err := os.ReadFile(repository(t, "deploy/compose/nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	s.program(runComposeNginx, strings.NewReplacer(
		"stint-1:8080", strings.TrimPrefix(silent.URL, "http://"), "stint-2:8080", strings.TrimPrefix(s.node.Check, "http://"),
		"listen 127.0.0.1:3000", "listen "+servers.FreeAddress(t), "proxy_read_timeout 500ms", "proxy_read_timeout 5s",
	).Replace(string(text)))
	s.expect("asked about twice", s.get("/"), http.StatusOK) // of this machine, which is counted as itself
	if n, used := asked.Load(), s.used("ip:127.0.0.1"); n != 1 || used != 1 {
		t.Errorf("the node that does not answer was asked %d times and %d were charged, want 1 and 1", n, used)
	}
}
