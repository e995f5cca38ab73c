package client

import (
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

// maxProblem is the maximum size of a problem, in bytes.
const maxProblem = 1 << 20

// readProblem returns the *wire.Problem of an unsuccessful answer.
func readProblem(answer *http.Response) error {
	p := &wire.Problem{}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil || p.Error() == "" {
		p = &wire.Problem{Title: fmt.Sprintf("The server answered %s without a problem document; is %s a Stint server?", answer.Status, answer.Request.URL.Host)}
	}
	p.Status = answer.StatusCode
	return p
}
