package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// raw sends bytes on one connection and returns the statuses of all answers
// until the node closes the connection.
func raw(t *testing.T, base, text string) []int {
	t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Error(err)
		return nil
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(waitTimeout)); err != nil {
		t.Error(err)
		return nil
	}
	// The node may close the connection during the write; the answers show it.
	_, _ = io.WriteString(connection, text)
	var statuses []int
	from := bufio.NewReader(connection)
	for {
		response, err := http.ReadResponse(from, nil)
		if err != nil {
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the node does not close the connection")
			}
			return statuses
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
			return statuses
		}
		statuses = append(statuses, response.StatusCode)
	}
}

const checkHead = "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

func TestAmbiguousLengthIsRefusedAndHidesNoRequest(t *testing.T) {
	n := startNode(t)
	const seen, secret = `{"key":"token:seen"}`, `{"key":"token:hid"}`
	hidden := fmt.Sprintf("%sConnection: close\r\nContent-Length: %d\r\n\r\n%s", checkHead, len(secret), secret)
	for name, lengths := range map[string]string{
		"two lengths":         fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(seen), seen),
		"a length and chunks": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		if got := raw(t, n.check, checkHead+lengths+hidden); len(got) != 1 || got[0] != http.StatusBadRequest {
			t.Errorf("%s: got the answers %v, want one 400", name, got)
		}
	}
	if used := len(n.logged("token:hid")); used > 0 {
		t.Errorf("the hidden request was charged %d times, want 0", used)
	}
}

func TestSlowBodyTimesOutWith408(t *testing.T) {
	t.Parallel() // it waits for the node to time out
	n := startNode(t)
	var both sync.WaitGroup
	for base, head := range map[string]string{
		n.check: checkHead,
		n.admin: strings.NewReplacer("/v1/check", "/v1/blocks", "Host", "Authorization: Bearer "+n.token+"\r\nHost").Replace(checkHead),
	} {
		both.Go(func() {
			if got := raw(t, base, head+"Content-Length: 100\r\n\r\n{"); len(got) != 1 || got[0] != http.StatusRequestTimeout {
				t.Errorf("%s: half a body: got %v, want one 408", base, got)
			}
		})
	}
	both.Wait()
}
