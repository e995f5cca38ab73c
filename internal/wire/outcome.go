package wire

import "github.com/go-json-experiment/json"

// The paths of what is declared here.
const (
	PathReport      = "/v1/report"
	PathReportBatch = "/v1/report/batch"
)

// The results of a report under one policy.
const (
	ReportCharged  = "charged"
	ReportFull     = "full"     // there was no room: nothing was charged, which is an offence
	ReportReplayed = "replayed" // its id was charged before
	ReportLost     = "lost"     // during an outage of the log, under on_failure allow or deny
)

// MaxValues is the largest number of values that one check or report says.
const MaxValues = 8

// MaxOutcome is the longest name of an outcome, in bytes.
const MaxOutcome = 64

// OutcomeReport reports the outcome of a request of a key, whether or not it was checked.
type OutcomeReport struct {
	Key string `json:"key"`
	// Outcome is 1 to MaxOutcome of a-z, 0-9 and underscore, beginning with a letter.
	// Omitted if status says what happened.
	Outcome string `json:"outcome,omitzero"`
	// Status is the status with which the site answered, in place of outcome: by it and the method and path
	// of the request the server finds the outcomes, as stint-admin follow does, and learns what the site's
	// answers mean. 100 to 599.
	Status int `json:"status,omitzero"`
	// Request has the attributes of the request. Policies with conditions count the report
	// only if it meets them. What is too long is cut, and what is not valid Unicode is replaced.
	Request RequestAttributes `json:"request,omitzero"`
	// Values are further values of the request by their names, such as {"account":"alice"}, of
	// which distinct rules count the different ones. Only a keyed hash of them is kept. Up
	// to MaxValues, the names as those of outcomes; "" counts as absent.
	Values map[string]string `json:"values,omitzero"`
	// At is when it happened; now if omitted or ahead. A report that is more
	// than ten minutes late is accepted and not counted, and the answer says so.
	At     Time   `json:"at,omitzero"`
	Source string `json:"source,omitzero"` // who reports, shown with an offence
	// Meta is shown with an offence and never trusted. Its values are cut as the attributes are.
	Meta map[string]string `json:"meta,omitzero"`
	// ID names the report: one that comes again within a minute after it was charged is
	// not charged again. 1 to MaxID printable ASCII characters.
	ID string `json:"id,omitzero"`
}

// ReportedOutcome answers a report. A report is a fact and is never refused: it charges
// what fits.
type ReportedOutcome struct {
	Key     string `json:"key"`     // canonical
	Outcome string `json:"outcome"` // as it was reported, "" for a status
	// Outcomes are those that the reported status means, none if it has none that count; omitted if an
	// outcome was reported.
	Outcomes []string `json:"outcomes,omitzero"`
	// Policies are those that count the outcome for this key and request, of any mode
	// but off.
	Policies []ReportedPolicy `json:"policies"`
	// Note says why no policy counted the report: none counts the outcome, none for this
	// key and request, the report has no value that is counted, the key is
	// exempt or blocked, or the report is too late. Omitted otherwise.
	Note     string `json:"note,omitzero"`
	Degraded bool   `json:"degraded"`
	// DegradedReason is omitted unless Degraded is true.
	DegradedReason string `json:"degraded_reason,omitzero"`
}

// ReportedPolicy is what one policy did with a report.
type ReportedPolicy struct {
	Policy string `json:"policy"`
	// Outcome is the one that the policy counted; omitted if it was reported and not found by a status.
	Outcome string `json:"outcome,omitzero"`
	// DerivedKey is the further key that the policy counted the report for; omitted for the
	// key itself.
	DerivedKey string `json:"derived_key,omitzero"`
	Mode       string `json:"mode" enum:"enforce,shadow"`
	// Result is charged; full if there was no room, which is an offence; replayed if the id
	// was charged before; lost during an outage of the log, under on_failure allow or deny.
	Result string `json:"result" enum:"charged,full,replayed,lost"`
	// ID opens the record of the offence; null unless the result is full.
	ID NullString `json:"id"`
	// Refuses says whether the policy refuses checks of the key from now on, or would in
	// shadow mode.
	Refuses bool `json:"refuses"`
	// RetryAt is when it allows checks again if nothing more is reported; null if it
	// allows them now.
	RetryAt Time       `json:"retry_at"`
	Rules   RuleStates `json:"rules"` // null if they are not known
}

// OutcomeBatch reports up to MaxBatch outcomes, in order.
type OutcomeBatch struct {
	Reports []OutcomeReport `json:"reports"` // 1 to MaxBatch
}

// OutcomeBatchAnswer holds the answers in the order of the reports.
type OutcomeBatchAnswer struct {
	Answers []OutcomeBatchItem `json:"answers"` // in the order of the reports
}

// OutcomeBatchItem is the answer to a report, or in its place what was wrong with it:
// exactly one of the two is not nil.
type OutcomeBatchItem struct {
	Answer  *ReportedOutcome
	Problem *Problem
}

// MarshalJSON writes the one that is not nil.
func (i OutcomeBatchItem) MarshalJSON() ([]byte, error) {
	if i.Problem != nil {
		return json.Marshal(i.Problem)
	}
	return json.Marshal(i.Answer)
}

// UnmarshalJSON reads an answer, which says "key", or else a problem.
func (i *OutcomeBatchItem) UnmarshalJSON(text []byte) error {
	var a ReportedOutcome
	if err := json.Unmarshal(text, &a); err != nil {
		return err
	}
	*i = OutcomeBatchItem{}
	if a.Key != "" {
		i.Answer = &a
		return nil
	}
	i.Problem = new(Problem)
	return json.Unmarshal(text, i.Problem)
}

// JSONSchemaOneOf returns a value of each type that an item may have, for the OpenAPI
// document.
func (OutcomeBatchItem) JSONSchemaOneOf() []any { return []any{ReportedOutcome{}, Problem{}} }
