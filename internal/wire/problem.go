package wire

import "github.com/go-json-experiment/json/jsontext"

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// DetailNoPath is the detail of the Problem of a path that a listener does not have.
const DetailNoPath = "There is nothing at this path. Checks are at /v1/check of the check listener, the pages at / of the admin listener; " +
	"paths are case sensitive and end without a slash."

// Problem is the answer to every request that fails: RFC 9457.
type Problem struct {
	// Type is a URI that names the kind of problem, "about:blank" if the
	// status says it all.
	Type   string `json:"type"`
	Title  string `json:"title"`  // the status in words
	Status int    `json:"status"` // the HTTP status
	// Detail is one sentence for people: what was wrong and what would be right.
	Detail string `json:"detail,omitzero"`
	// Code is the same for the same mistake, for programs: "invalid",
	// "not_found", "conflict", "unauthorized", "forbidden",
	// "precondition_required", "precondition_failed",
	// "confirmation_required", "proposed", "too_many", "too_large", "unavailable",
	// "saved", "maybe_saved", "internal" and what HTTP itself names.
	Code string `json:"code"`
	// Field names the invalid field, for example "rules[2]" or "escalation.max_duration".
	Field string `json:"field,omitzero"`
	// Unknown says that what Field names does not exist, for example a policy or a channel.
	Unknown bool `json:"unknown,omitzero"`
	// Errors lists all invalid fields if there are several.
	Errors []FieldProblem `json:"errors,omitempty"`
	// RequestID finds the request in the server's log.
	RequestID string `json:"request_id,omitzero"`
	// TraceID is the id of the trace that the request belongs to, omitted for none.
	TraceID string `json:"trace_id,omitzero"`
	// More has the members that only this problem has, for example the id of the
	// block in conflict.
	More map[string]jsontext.Value `json:",embed"`
}

// FieldProblem is one field that was wrong.
type FieldProblem struct {
	Field  string `json:"field"`  // for example rules[2]
	Detail string `json:"detail"` // what was wrong, in one sentence
}

// Error returns the detail, or the title if there is none.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}
