package accesslog

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fail2ban"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/proxies"
)

// Options say how to read a log. The zero value reads any of the formats and
// keys each request by its client address.
type Options struct {
	// Format is Auto when it is "".
	Format Format

	// Time, Key and Cost name the column of a CSV or the field of a JSON
	// object that holds each, a dot going down into an object
	// ("request.remote_ip"). "" looks for the well-known names; then a log
	// without a cost counts 1 for each request, and a log without a field that is
	// known to hold the client's address is refused. For CLF, Key is one of remote_addr
	// (the default), user, referer, user_agent and x_forwarded_for (the third quoted text
	// after the status), and the others must be "". Of a list of addresses the last one
	// counts that is not one of Proxies.
	Time, Key, Cost string

	// Account names the column or the field with the account that the request is about, as
	// Key does; "" for none. It is never looked for by well-known names.
	Account string

	// Kind is put before what Key names to make the key: "token" makes
	// "token:abc". Empty means ip for the well-known names of addresses, no
	// kind (the text is the whole key) for a column called "key", and otherwise the
	// name of the column.
	Kind string

	// Proxies are trusted to have written who asked them into X-Forwarded-For: where the
	// client is one of them and the log has that header, the client is found in it.
	Proxies proxies.Trusted

	// LogFormat describes the lines in the style of nginx's log_format or Apache's LogFormat, ""
	// for a known format.
	LogFormat string

	// Zone is the time zone of times without one. nil means UTC, and the machine's for formats that
	// always write their times so.
	Zone *time.Location

	// SkipPaths are paths whose requests are left out; the zero value leaves out none.
	SkipPaths conditions.When

	// Filter, if not nil, finds failures in lines of any other program, in the place of requests.
	// FilterOutcome is the outcome of each; if it is "", that is the name of the filter, and
	// login_failed too where lines name a user, so that the presets count them.
	Filter        *fail2ban.Filter
	FilterOutcome string

	// Open opens a log of OpenFiles by its path. nil opens the file of that name, or
	// standard input for "-".
	Open func(path string) (io.ReadCloser, error)

	// Keys must be the parser of the policies that the records are tried on.
	Keys keys.Parser

	// MaxBad is how many bad lines are kept to be shown. 0 means 10.
	MaxBad int
}

func (o Options) withDefaults() (Options, error) {
	if o.Format == "" {
		o.Format = Auto
	}
	if o.MaxBad <= 0 {
		o.MaxBad = 10
	}
	if o.Kind != "" && o.Kind != wholeKey {
		if _, err := o.Keys.Pattern(o.Kind + ":*"); err != nil {
			return o, &InputError{fmt.Errorf("the kind %q of key is bad; a kind starts with a-z and holds a-z, 0-9, _ and - only", o.Kind)}
		}
	}
	return o, nil
}

// Well-known names, the preferred first. They are compared without case.
var (
	timeNames = []string{"time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "datetime", "date", "msec", "startutc", "start_time", "edgestarttimestamp", "time_received"}
	// addressNames are fields that are known to hold the address that connected, or the one that
	// a server has found behind its own proxies. A name that a program uses for what the client
	// sends, such as host, must never be added.
	addressNames = []string{
		"remote_addr", "client_ip", "clientip", "remote_ip", "ip", "client",
		"request.client_ip", "request.remote_ip", "client.ip", "source.ip", "httprequest.remoteip", "httprequest.clientip", "clienthost",
		"clientaddr", "client_addr", "remoteaddr", "remote_address", "downstream_remote_address", "source_ip", "client.address", "source.address", "remote_host",
		"c-ip",
	}
	costNames = []string{"cost"}

	// forwardedNames are only looked at behind trusted proxies: a client can send the header itself.
	forwardedNames = []string{
		"x_forwarded_for", "http_x_forwarded_for", "x-forwarded-for", "forwarded_for", "request.headers.x-forwarded-for", "request_x-forwarded-for",
		"http.request.headers.x-forwarded-for", "http.request.headers.x_forwarded_for", "cs(x-forwarded-for)",
	}
	statusNames = []string{
		"status", "status_code", "response_code", "response_status", "http_status", "response.status_code", "httprequest.status", "downstreamstatus",
		"http.response.status_code", "edgeresponsestatus", "sc-status",
	}
	// requestNames are the names of the path, the method, the agent, the host and the account,
	// which only Options.Account names. Those of Traefik come first: it may write each header
	// of a client as request_NAME, also one called Uri or Method.
	requestNames = [...][]string{
		// request_uri is what the client asked for, uri in nginx what that was rewritten to.
		{"requestpath", "request_uri", "path", "uri", "url", "request.uri", "request.path", "httprequest.requesturl", "url.original", "url.path", "clientrequesturi", "clientrequestpath", "cs-uri-stem"},
		{"requestmethod", "method", "request_method", "request.method", "httprequest.requestmethod", "http.request.method", "clientrequestmethod", "cs-method"},
		{"agent", "user_agent", "http_user_agent", "useragent", "request.user_agent", "httprequest.useragent", "request.headers.user-agent", "request_user-agent", "user_agent.original", "clientrequestuseragent", "cs(user-agent)"},
		{"server_name", "http_host", "vhost", "virtual_host", "authority", "request.host", "requesthost", "host", "url.domain", "clientrequesthost", "x-host-header", "cs(host)", "cs-host"},
		{},
	}
	lineNames = []string{"request", "request_line"}
)

// Kinds that are not just put before a value: addresses, whose value may be a list, and values
// that are keys already.
const (
	addressKind = "ip"
	wholeKey    = ":"
)

// kindOf returns the kind of the keys that the column called name holds.
func (o Options) kindOf(name string) (string, error) {
	lower := strings.ToLower(name)
	switch {
	case o.Kind != "":
		return o.Kind, nil
	case lower == "key":
		return wholeKey, nil
	case contains(addressNames, lower), isForwardedList(lower):
		return addressKind, nil
	}
	kind := strings.NewReplacer(".", "_", " ", "_").Replace(lower)
	if _, err := o.Keys.Pattern(kind + ":*"); err != nil {
		return "", fmt.Errorf("the column %q makes no kind of key; name a kind, for example token", clip(name))
	}
	return kind, nil
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}
