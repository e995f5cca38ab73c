package firewall

import (
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A service manager starts the command again with the token that replaces the one that ended.
// The sets stay as they are until then.
func TestCommandEndsOnceItsTokenIsRefused(t *testing.T) {
	s := newSite(t)
	s.add("blocks", "ip:198.51.100.7", "")
	s.start()
	s.await("198.51.100.7")
	var tokens struct {
		Items []struct{ ID, Name string }
	}
	if err := json.Unmarshal(s.node.Do(t, http.MethodGet, "/v1/tokens", "", http.StatusOK), &tokens); err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens.Items {
		if token.Name == "firewall" {
			s.node.Do(t, http.MethodDelete, "/v1/tokens/"+token.ID, "", http.StatusOK)
		}
	}
	ended := make(chan error, 1)
	go func(c *exec.Cmd) { ended <- c.Wait() }(s.running)
	select {
	case err := <-ended:
		s.running = nil
		if failed, is := errors.AsType[*exec.ExitError](err); !is || failed.ExitCode() != 8 || !strings.Contains(s.out.String(), "was revoked") {
			t.Errorf("got %v: %s", err, s.out.String())
		}
	case <-time.After(maxWait):
		_ = s.running.Process.Kill()
		<-ended
		s.running = nil
		t.Errorf("the command goes on: %s", s.out.String())
	}
	if got := s.elements(); got != "198.51.100.7" {
		t.Errorf("the sets have %s", got)
	}
}
