package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/wire"
)

// question is the body of a check.
type question struct {
	Key    string `json:"key"`
	Policy string `json:"policy,omitzero"`
	Cost   int    `json:"cost"`
	Detail string `json:"detail"`
	Source string `json:"source"`
	// Request is what the log says of the request.
	Request wire.RequestAttributes `json:"request,omitzero"`
	// Values are the account that the log names.
	Values map[string]string `json:"values,omitempty"`
}

// valuesOf returns what a record says beside its request, nil for nothing.
func valuesOf(r accesslog.Record) map[string]string {
	if r.Account == "" {
		return nil
	}
	return map[string]string{"account": strings.ToValidUTF8(r.Account, "\uFFFD")}
}

// attributesOf returns what a record says of its request, as a server takes it.
func attributesOf(r accesslog.Record) wire.RequestAttributes {
	request := conditions.NewRequest(r.Path, r.Method, r.Agent, r.Host)
	clean := func(a conditions.Attribute) string {
		return strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return unicode.ReplacementChar
			}
			return c
		}, request.Value(a))
	}
	path := escapePath(clean(conditions.Path))
	return wire.RequestAttributes{Path: path[:min(len(path), conditions.MaxPath)], Method: clean(conditions.Method), Agent: clean(conditions.Agent), Host: clean(conditions.Host)}
}

// escapePath keeps a decoded path from being decoded once more.
func escapePath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(path)
}

// answer is what counts in the answer to a check.
type answer struct {
	status   int
	Decision string `json:"decision"`
	Degraded bool   `json:"degraded"`
	// Problem and Title are those of an answer that is no decision.
	Problem string `json:"detail"`
	Title   string `json:"title"`
	Field   string `json:"field"` // what is wrong of the check
	Code    string `json:"code"`
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 10

// check asks about one request. The error is ErrToken or ErrPolicy, or says why no answer came.
func (c *caller) check(ctx context.Context, record accesslog.Record) (answer, error) {
	body, err := json.Marshal(question{
		Key: accesslog.FullKey(record.Key), Policy: c.options.Policy, Cost: record.Cost, Detail: "none", Source: "replay", Request: attributesOf(record), Values: valuesOf(record),
	})
	if err != nil {
		return answer{}, err
	}
	status, text, err := c.post(ctx, c.checkURL, body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: status}
	if json.Unmarshal(text, &a) != nil {
		// Something else than Stint answered, a proxy perhaps: the status says
		// what there is to say.
		return answer{status: status, Title: "the answer is not that of a Stint"}, nil //nolint:nilerr // see above
	}
	if a.Code == "forbidden" { // a token without the scope check
		return answer{}, ErrToken
	}
	if a.Field == "policy" {
		return answer{}, fmt.Errorf("%w: %s", ErrPolicy, a.Problem)
	}
	return a, nil
}

// post sends a body to a URL of the check listener.
func (c *caller) post(ctx context.Context, to string, body []byte) (status int, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.options.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	response, err := c.options.Client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer)); err != nil {
		return 0, nil, err
	}
	if response.StatusCode == http.StatusUnauthorized {
		return 0, nil, ErrToken
	}
	return response.StatusCode, text, nil
}

// reportOutcomes reports the outcome of a request, by its status in the log.
func (c *caller) reportOutcomes(ctx context.Context, record accesslog.Record) {
	c.names = c.options.Outcomes.Append(c.names[:0], &record)
	for _, outcome := range c.names {
		body, err := json.Marshal(wire.OutcomeReport{
			Key: accesslog.FullKey(record.Key), Outcome: outcome, Source: "replay", Request: attributesOf(record), Values: valuesOf(record),
		})
		status := 0
		if err == nil {
			status, _, err = c.post(ctx, c.reportURL, body)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil && status == http.StatusOK {
			c.counts.reported++
		} else {
			c.counts.unreported++
		}
	}
}

// failure describes an answer that is no decision, or none at all.
func (a answer) failure(err error) (what, example string) {
	if err != nil {
		return "no answer", strconv.Quote(err.Error())
	}
	example = a.Problem
	if example == "" {
		example = a.Title
	}
	return fmt.Sprintf("HTTP %d", a.status), strconv.Quote(example)
}
