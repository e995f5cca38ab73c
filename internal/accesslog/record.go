// Package accesslog reads requests from access logs: Common and Combined Log Format, JSON
// lines, columns that a line names (CSV, W3C Extended Log Format), and lines that a description in
// the style of nginx's log_format explains, those of known servers and the operator's own; plain,
// gzip or within the lines of docker, CRI, journald and syslog. It streams, counts the lines that it cannot read, and
// brings requests into the order of time. A client's address is read only from a field
// that is known to hold it, or that the operator names: never from what the client writes.
package accesslog

import (
	"fmt"
	"io"
	"strings"

	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/keys"
)

// Record is one request of a log.
type Record struct {
	Time int64 // Unix milliseconds
	Key  keys.Key
	Cost int // 1 to algorithms.MaxAmount
	// Path, Method, Agent and Host describe the request, "" if the log lacks them.
	// The path may be a whole target with its query.
	Path, Method, Agent, Host string
	// Account is the text of Options.Account, "" where the log has none.
	Account string
	// Status is the status of the answer, 0 if the log lacks it.
	Status int
	// IsNoRequest says that what the client sent is no request of HTTP.
	IsNoRequest bool
	// Outcome is what Options.Filter has found, "" for a request. IsLogin says that it was also a
	// login that failed.
	Outcome string
	IsLogin bool
}

// texts returns the texts of requestNames, in their order.
func (r *Record) texts() [len(requestNames)]*string {
	return [...]*string{&r.Path, &r.Method, &r.Agent, &r.Host, &r.Account}
}

// AppendOutcomes appends the names of the outcomes of the request to names: that of the filter that found
// it, or those of its answer.
func (r *Record) AppendOutcomes(names []string, all answers.Outcomes) []string {
	if r.Outcome == "" {
		a := r.answer()
		return all.Append(names, &a)
	}
	names = append(names, r.Outcome)
	if r.IsLogin {
		names = append(names, answers.LoginFailed)
	}
	return names
}

// Learn has all take the answer into account, whether or not it has an outcome.
func (r *Record) Learn(all answers.Outcomes) {
	a := r.answer()
	all.Learn(&a)
}

func (r *Record) answer() answers.Answer {
	return answers.Answer{Key: r.Key, Path: r.Path, Method: r.Method, Status: r.Status, Time: r.Time, IsNoRequest: r.IsNoRequest}
}

// Source yields requests one after another. The error after the last one is
// io.EOF.
type Source interface {
	Next() (Record, error)
}

// FullKey returns the text that a keys.Parser parses into exactly k: for an IPv6 client its
// whole address, whereas k.String() is the network that it is counted by.
func FullKey(k keys.Key) string {
	network, ok := k.Network()
	if !ok || network.Addr().Is4() || !network.IsSingleIP() {
		return k.String()
	}
	return "ip:" + network.Addr().String()
}

// Slice returns a Source of the records.
func Slice(records []Record) Source { return &slice{rest: records} }

type slice struct{ rest []Record }

func (s *slice) Next() (Record, error) {
	if len(s.rest) == 0 {
		return Record{}, io.EOF
	}
	record := s.rest[0]
	s.rest = s.rest[1:]
	return record, nil
}

// Format is how a log writes its lines.
type Format string

// The formats. CLF is both Common and Combined Log Format.
const (
	Auto    Format = "auto" // by the first lines
	CLF     Format = "clf"
	JSON    Format = "json"    // one object a line
	CSV     Format = "csv"     // a line of column names first
	W3C     Format = "w3c"     // lines of column names behind "#Fields:", as IIS and CloudFront write
	HAProxy Format = "haproxy" // its HTTP log
	ALB     Format = "alb"     // also of AWS's Classic Load Balancer
	Envoy   Format = "envoy"   // its default text, or Istio's
	// Werkzeug is that of Flask's development server and of Python's http.server.
	Werkzeug Format = "werkzeug"
	UWSGI    Format = "uwsgi"

	described Format = "described" // by Options.LogFormat
)

// FormatNames lists the formats that ParseFormat knows, for people.
const FormatNames = "auto, common, combined, json, csv, w3c, haproxy, alb, envoy, werkzeug or uwsgi"

// ParseFormat reads the name of a format; "" is Auto, "common" and "combined"
// are CLF. The error names the formats.
func ParseFormat(text string) (Format, error) {
	switch format := Format(strings.ToLower(text)); format {
	case "":
		return Auto, nil
	case "common", "combined":
		return CLF, nil
	case "jsonl", "ndjson":
		return JSON, nil
	case "iis", "cloudfront":
		return W3C, nil
	case Auto, CLF, JSON, CSV, W3C, HAProxy, ALB, Envoy, Werkzeug, UWSGI:
		return format, nil
	}
	return "", fmt.Errorf("the log format %q is not known; write %s", text, FormatNames)
}
