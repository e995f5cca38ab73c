package doors

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/testnode"
)

// The program of docs/doors/go.md runs as written.
func TestGoProgramOfTheDocsLimits(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t, "--check-auth", "token"), app: new(application)}
	s.put("site", `{"match":["ip:*"],"rules":["3/1d"]}`)
	text := strings.ReplaceAll(configuration(t, gateway{page: "go.md", language: "go"}, 0), `WithToken("")`, `WithToken("`+s.token("check")+`")`)
	s.program(func(s *site, config string) {
		at := strings.TrimPrefix(s.url, "http://")
		program := filepath.Join(t.TempDir(), "program")
		c := exec.Command("go", "build", "-o", program, write(t, "main.go", strings.Replace(config, "127.0.0.1:8000", at, 1)))
		c.Dir = repository(t, ".")
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		execute(t, program)
	}, text)
	for range 3 {
		s.expect("allowed", s.get("/"), http.StatusOK)
	}
	s.expect("limited", s.get("/"), http.StatusTooManyRequests)
}

// The command of docs/doors/curl.md runs as written, with and without a token.
func TestCurlCommandOfTheDocsIsAnswered(t *testing.T) {
	for _, auth := range []string{"off", "token"} {
		t.Run(auth, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t, "--check-auth", auth)}
			command := strings.NewReplacer("http://127.0.0.1:8080", s.node.Check, "--max-time 0.5", "--max-time 60", "--connect-timeout 0.1", "--connect-timeout 60").
				Replace(configuration(t, gateway{page: "curl.md", language: "sh"}, 0))
			if auth == "token" {
				command = strings.Replace(command, "Bearer ", "Bearer "+s.token("check"), 1)
			}
			text, err := exec.Command("sh", "-c", command).CombinedOutput()
			if err != nil || !strings.Contains(string(text), `"decision":"allowed"`) {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}
