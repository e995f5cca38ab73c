package client

import (
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

// maxProblem bounds the problem that is read from an answer, in bytes.
const maxProblem = 1 << 20

// readProblem reads the *wire.Problem of an answer that is no success.
func readProblem(answer *http.Response) error {
	p := &wire.Problem{}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil || p.Error() == "" {
		p = &wire.Problem{Title: fmt.Sprintf("The server answered %s and nothing that Stint would say; is %s a Stint?", answer.Status, answer.Request.URL.Host)}
	}
	p.Status = answer.StatusCode
	return p
}
