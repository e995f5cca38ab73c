package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	pathReport      = "/v1/report"
	pathReportBatch = "/v1/report/batch"
)

// Report is the outcome of a request, for example a failed login or a page that was not
// found. The policies with that outcome count it, whether or not the request was checked.
type Report struct {
	// Key is the key that was or would be checked.
	Key string
	// Outcome names what happened: 1 to 64 of a-z, 0-9 and underscore, beginning with a
	// letter, for example "login_failed".
	Outcome string
	// Status is the status of the site's answer, 100 to 599, in place of Outcome: the server finds by it, and by
	// the path and method of Request, which outcomes it means. 0 for an Outcome.
	Status int
	// Request describes the request, for policies with conditions. Its values are cleaned
	// like those of a Check.
	Request Request
	// Values are further values of the request by name, as in a Check. Stint stores only
	// hashes of them.
	Values map[string]string
	// At is when it happened, zero for now. A report that is more than ten minutes late is
	// not counted; any other counts from its arrival, not from At.
	At time.Time
	// Source says who reports, shown with an offence; "" means WithSource's.
	Source string
	// Meta is shown with an offence and never trusted, as that of a Check.
	Meta map[string]string
	// ID makes the server count only once all reports that have it within a minute. It is 1
	// to 64 printable ASCII characters. If it is "" and retries are enabled, each call
	// generates one.
	ID string
}

// ReportResult is what one policy did with a report.
type ReportResult string

// The results.
const (
	ReportCharged  ReportResult = "charged"
	ReportFull     ReportResult = "full"     // there was no room: nothing was charged, which is an offence
	ReportReplayed ReportResult = "replayed" // its ID was charged before
	ReportLost     ReportResult = "lost"     // during an outage of Stint's log, under on_failure allow or deny
)

// Reported answers a Report.
type Reported struct {
	Key     string // canonical
	Outcome string // "" for a Status
	// Outcomes are those that a Status means, nil for none and for an Outcome.
	Outcomes []string
	// Policies are the policies that count the outcome for this key and request.
	Policies []ReportedPolicy
	// Note says why no policy counted it, "" if one did.
	Note           string
	Degraded       bool
	DegradedReason string
}

// Refuses reports whether an enforcing policy refuses the checks of the key from now on.
func (r *Reported) Refuses() bool {
	for _, p := range r.Policies {
		if p.Refuses && p.Mode == "enforce" {
			return true
		}
	}
	return false
}

// ReportedPolicy is what one policy did with a report.
type ReportedPolicy struct {
	Policy  string
	Outcome string // that it counted, of a Status; "" for the reported one
	// DerivedKey is the further key, as account:alice, that the policy counted the report for; ""
	// for the key itself.
	DerivedKey string
	Mode       string // enforce or shadow
	Result     ReportResult
	ID         string // opens the record of the offence, "" unless the result is ReportFull
	// Refuses says whether the policy refuses checks of the key from now on, or would in
	// shadow mode, and RetryAt until when.
	Refuses bool
	RetryAt time.Time
	Rules   []RuleState
}

// ReportItem answers one report of a batch: exactly one of the two is not nil.
type ReportItem struct {
	Reported *Reported
	// Err is a *Problem if this report is invalid. If ReportBatch needed several calls, and not
	// the first but a later one failed, it is the error of that one for each report without an
	// answer.
	Err error
}

// Report reports the outcome of a request. It is not an error if no policy counts it. The
// error is a *Problem if the report is invalid, an *OutageError regardless of WithOutage,
// or the error of ctx.
func (c *Client) Report(ctx context.Context, r Report) (*Reported, error) {
	if err := checkKey(r.Key, "key"); err != nil {
		return nil, err
	}
	var answer wireReported
	if _, err := c.ask(ctx, call{path: pathReport, question: c.wireReport(&r)}, &answer); err != nil {
		return nil, err
	}
	return answer.reported(), nil
}

// ReportBatch reports 1 to MaxBatch outcomes in order, in one call, or in several if they have
// more than 4 MiB together. The error is about the whole batch, as described at Report.
func (c *Client) ReportBatch(ctx context.Context, reports []Report) ([]ReportItem, error) {
	if len(reports) == 0 || len(reports) > MaxBatch {
		return nil, fmt.Errorf("client: a batch of %d reports; send 1 to %d", len(reports), MaxBatch)
	}
	items := make([]ReportItem, len(reports))
	var send []*wireReport
	var asked []int
	for i := range reports {
		if items[i].Err = checkKey(reports[i].Key, "key"); items[i].Err == nil {
			send, asked = append(send, c.wireReport(&reports[i])), append(asked, i)
		}
	}
	answered, err := inParts("reports", send, func(from, to int, body []byte) error {
		answers := wireReportBatch{sent: to - from}
		if _, err := c.ask(ctx, call{path: pathReportBatch, body: body, isBatch: true}, &answers); err != nil {
			return err
		}
		for n, i := range asked[from:to] {
			items[i].Reported, items[i].Err = readReported(answers.Answers[n])
		}
		return nil
	})
	if err != nil && answered == 0 {
		return nil, err
	}
	for _, i := range asked[answered:] {
		items[i].Err = err
	}
	return items, nil
}

// wireReport is a report as it is sent.
type wireReport struct {
	Key     string            `json:"key"`
	Outcome string            `json:"outcome,omitzero"`
	Status  int               `json:"status,omitzero"`
	Request Request           `json:"request,omitzero"`
	Values  map[string]string `json:"values,omitempty"`
	At      *time.Time        `json:"at,omitzero"`
	Source  string            `json:"source,omitzero"`
	Meta    map[string]string `json:"meta,omitempty"`
	ID      string            `json:"id,omitzero"`
}

func (c *Client) wireReport(r *Report) *wireReport {
	w := &wireReport{
		Key: r.Key, Outcome: r.Outcome, Status: r.Status, Request: r.Request.cut(), Values: cleanValues(r.Values), Source: c.sourceOr(r.Source), Meta: cutMeta(r.Meta),
		ID: c.idempotencyKey(r.ID, false),
	}
	if !r.At.IsZero() {
		at := r.At.UTC()
		w.At = &at
	}
	return w
}

// cleanValues returns values that JSON can hold, cut to what is sent of them: clients choose
// them, and none must have its check or report refused by them. Names and how many there are
// the program chooses.
func cleanValues(values map[string]string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	clean := make(map[string]string, len(values))
	for name, value := range values {
		clean[name] = cutEncoded(strings.ToValidUTF8(value[:min(len(value), maxValue)], "\uFFFD"))
	}
	return clean
}

const (
	// maxValue bounds what is sent of a value, in bytes.
	maxValue = 2048
	// maxEncoded bounds it in JSON, where a control character has six bytes: eight values must
	// fit into a check.
	maxEncoded = 2 * maxValue
)

func cutEncoded(value string) string {
	size := 0
	for i, r := range value {
		switch {
		case r < ' ':
			size += len(`\u0000`)
		case r == '"' || r == '\\':
			size += 2
		default:
			size += utf8.RuneLen(r)
		}
		if size > maxEncoded {
			return value[:i]
		}
	}
	return value
}

type wireReported struct {
	Key      string   `json:"key"`
	Outcome  string   `json:"outcome"`
	Outcomes []string `json:"outcomes"`
	Policies []struct {
		Policy  string       `json:"policy"`
		Outcome string       `json:"outcome"`
		Derived string       `json:"derived_key"`
		Mode    string       `json:"mode"`
		Result  ReportResult `json:"result"`
		ID      string       `json:"id"`
		Refuses bool         `json:"refuses"`
		RetryAt time.Time    `json:"retry_at"`
		Rules   []wireRule   `json:"rules"`
	} `json:"policies"`
	Note           string `json:"note"`
	Degraded       bool   `json:"degraded"`
	DegradedReason string `json:"degraded_reason"`
}

// fits returns an error unless it answers a report.
func (w *wireReported) fits(status int) error {
	if status != http.StatusOK || w.Key == "" {
		return fmt.Errorf("an answer with status %d that answers no report", status)
	}
	return nil
}

func (w *wireReported) reported() *Reported {
	r := &Reported{Key: w.Key, Outcome: w.Outcome, Outcomes: w.Outcomes, Note: w.Note, Degraded: w.Degraded, DegradedReason: w.DegradedReason}
	for _, p := range w.Policies {
		r.Policies = append(r.Policies, ReportedPolicy{
			Policy: p.Policy, Outcome: p.Outcome, DerivedKey: p.Derived, Mode: p.Mode, Result: p.Result, ID: p.ID, Refuses: p.Refuses, RetryAt: p.RetryAt, Rules: states(p.Rules),
		})
	}
	return r
}

// wireReportBatch is the answer to a batch of reports.
type wireReportBatch struct {
	Answers []jsontext.Value `json:"answers"`
	sent    int
}

// fits returns an error unless there is an answer to each report.
func (w *wireReportBatch) fits(status int) error {
	if status != http.StatusOK || len(w.Answers) != w.sent {
		return fmt.Errorf("an answer with status %d and %d answers to a batch of %d reports", status, len(w.Answers), w.sent)
	}
	return nil
}

// readReported reads an answer, which says "key", or else the problem in its place.
func readReported(text jsontext.Value) (*Reported, error) {
	var w wireReported
	if err := json.Unmarshal(text, &w); err == nil && w.Key != "" {
		return w.reported(), nil
	}
	p := new(Problem)
	if err := json.Unmarshal(text, p); err != nil || p.Status == 0 {
		return nil, errUnreadable
	}
	return nil, p
}
