package client

import (
	"fmt"
	"net/http"
	"unicode/utf8"
)

// Problem is the error of a call that Stint rejects (RFC 9457), because the question or its
// token is invalid. Find it with errors.As.
type Problem struct {
	// Type is a URI that names the kind of problem, "about:blank" if the
	// status is all there is to say.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"` // of HTTP
	// Detail is one sentence for people: what was wrong and what would be right.
	Detail string `json:"detail"`
	// Code is the same for the same mistake, for programs: "invalid",
	// "not_found", "unauthorized" and so on. With "saved", a change
	// such as that of Hold was saved despite the error; with "maybe_saved" it may have been.
	Code string `json:"code"`
	// Field names the invalid field, "" if the error is about the whole question.
	Field string `json:"field"`
	// Errors lists all invalid fields if there are several.
	Errors []FieldProblem `json:"errors"`
	// RequestID finds the request in the server's log.
	RequestID string `json:"request_id"`
	// TraceID is that of the traceparent that was sent, "" for none.
	TraceID string `json:"trace_id"`
}

// FieldProblem is an invalid field.
type FieldProblem struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Error returns the status with the detail, or the title where there is none,
// quoted so that whatever an answer holds is harmless in a log.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	return fmt.Sprintf("stint answered %d: %s", p.Status, plain(text))
}

// aboutTheQuestion reports whether the question itself was wrong, so that
// another Stint would answer the same. A token that is refused is not the
// question's fault.
func (p *Problem) aboutTheQuestion() bool {
	switch p.Status {
	case 401, 403, 408, 429:
		return false
	}
	return p.Status >= 400 && p.Status < 500
}

// maxKey is the length of the longest key, in bytes.
const maxKey = 512

// checkKey returns the *Problem of a key that is no UTF-8, which JSON cannot hold, or too long
// for Stint, which limits the size of a question: clients choose keys, and one must not keep
// the others of its batch from being asked about.
func checkKey(key, field string) error {
	problem := ""
	switch {
	case len(key) > maxKey:
		problem = fmt.Sprintf("has %d bytes; at most %d are allowed", len(key), maxKey)
	case !utf8.ValidString(key):
		problem = "is not UTF-8; send text"
	default:
		return nil
	}
	return &Problem{
		Type: "about:blank", Title: http.StatusText(http.StatusUnprocessableEntity), Status: http.StatusUnprocessableEntity,
		Detail: field + ": " + problem, Code: "invalid", Field: field,
	}
}

// Refused is the error of Wait, WaitAll, Do and Transport for a refused request: it must
// not be made, and Do and Transport did not make it.
type Refused struct {
	// Decision says why and for how long. For several keys, it is the decision with the
	// longest wait. It is never nil.
	Decision *Decision
	// Combined is the decision about all keys of a WaitAll, otherwise nil.
	Combined *CombinedDecision
}

// Error says which key was refused, by what and for how long.
func (r *Refused) Error() string {
	d := r.Decision
	text := fmt.Sprintf("stint: %q is %s", d.Key, plain(string(d.Outcome)))
	switch {
	case d.Rule != "":
		text += " by " + plain(d.Rule)
	case d.Block != nil:
		text += " by the block of " + plain(d.Block.Pattern)
	}
	if d.RetryAfter > 0 {
		text += fmt.Sprintf(", try again in %s", d.RetryAfter)
	}
	return text
}
