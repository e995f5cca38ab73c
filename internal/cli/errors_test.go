package cli

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// The text of a problem is for people and may change.
func TestExitCodeIgnoresTheTextOfAProblem(t *testing.T) {
	for name, test := range map[string]struct {
		problem wire.Problem
		want    console.Code
	}{
		"a wrong field":                  {wire.Problem{Status: http.StatusUnprocessableEntity, Code: "invalid", Field: "policy", Detail: "policy: there is no room"}, console.Usage},
		"a field that names nothing":     {wire.Problem{Status: http.StatusUnprocessableEntity, Code: "invalid", Field: "policy", Detail: "policy: unknown", Unknown: true}, console.NotFound},
		"a path that names nothing":      {wire.Problem{Status: http.StatusNotFound, Code: "not_found"}, console.NotFound},
		"a confirmation that is missing": {wire.Problem{Status: http.StatusConflict, Code: "confirmation_required"}, console.Unconfirmed},
		"a conflict":                     {wire.Problem{Status: http.StatusConflict, Code: "conflict"}, console.Failed},
	} {
		if got := codeOf(&test.problem); got != test.want {
			t.Errorf("%s: codeOf: got %d, want %d", name, got, test.want)
		}
	}
}

func TestInterruptionSaysWhetherTheChangeMayBeSaved(t *testing.T) {
	taken := &client.Unreachable{URL: "http://node", Err: context.Canceled, MaybeDone: true}
	if got := codeOf(taken); got != console.Interrupted {
		t.Errorf("the exit code is %d, want %d", got, console.Interrupted)
	}
	if got := strings.Join(explain(taken), " "); !strings.Contains(got, "(interrupted); the change may have been saved") {
		t.Errorf("explain: got %q, want that the change may have been saved", got)
	}
	if got := strings.Join(explain(context.Canceled), " "); got != "interrupted" || codeOf(context.Canceled) != console.Interrupted {
		t.Errorf("explain of an interruption before the request: got %q", got)
	}
}
