package accesslog

import (
	"bytes"
	"slices"
)

// description describes lines in the style of nginx's log_format. $_ is a text without a space
// that nobody needs.
type description struct {
	format Format
	title  string
	lines  string
	// isBare says that the server writes quotes within quotes as they are.
	isBare bool
	// isWhole says that nothing follows.
	isWhole bool
	// isLocal says that times are in the machine's zone.
	isLocal bool
	// isURL says that a target may be a whole URL, whose host is the host of the request.
	isURL bool
	// isColored says that the request may be within escape sequences of a terminal.
	isColored bool
}

// descriptions describe the logs of servers that write neither Common Log Format, JSON nor W3C Extended
// Log Format. Another server is a row here.
var descriptions = []description{
	{
		format: HAProxy, title: "HAProxy HTTP log", isLocal: true, isURL: true,
		lines: `$remote_addr:$remote_port [$time] $_ $_ $_ $status $bytes_sent $_ $_ $_ $_ $_ $captures"$request"`,
	},
	{
		format: ALB, title: "AWS ALB log", isURL: true,
		lines: `$_ $time_iso8601 $_ $remote_addr:$remote_port $_ $_ $_ $_ $status $_ $_ $_ "$request" "$http_user_agent"`,
	},
	{
		format: ALB, title: "AWS ELB log", isURL: true,
		lines: `$time_iso8601 $_ $remote_addr:$remote_port $_ $_ $_ $_ $status $_ $_ $_ "$request" "$http_user_agent"`,
	},
	{
		format: Envoy, title: "Envoy log", isBare: true, isWhole: true,
		lines: `[$time_iso8601] "$request" $status $_ $_ $_ $_ $_ "$http_x_forwarded_for" "$http_user_agent" "$request_id" "$http_host" "$upstream"`,
	},
	{
		format: Envoy, title: "Envoy log of Istio", isBare: true, isWhole: true,
		lines: `[$time_iso8601] "$request" $status $_ $_ $_ "$failure" $_ $_ $_ $_ "$http_x_forwarded_for" "$http_user_agent" "$request_id" "$http_host" "$upstream" $_ $_ $_ $remote_addr $_ $_`,
	},
	{
		format: Werkzeug, title: "Werkzeug log", isBare: true, isWhole: true, isLocal: true, isColored: true,
		lines: `$remote_addr - - [$time_local] "$request" $status $_`,
	},
	{
		format: Werkzeug, title: "Werkzeug log of Python's logging", isBare: true, isWhole: true, isLocal: true, isColored: true,
		lines: `INFO:werkzeug:$remote_addr - - [$time_local] "$request" $status $_`,
	},
	{
		format: UWSGI, title: "uWSGI log", isBare: true, isWhole: true, isLocal: true,
		lines: `[pid: $pid|app: $_|req: $_] $remote_addr ($remote_user) {$_ vars in $_ bytes} [$time] $request_method $request_uri => generated $_ bytes in $_ $_ ($_ $status) $_ headers in $_ bytes ($_ switches on core $_)`,
	},
}

// describedAs returns the description of a format by which a line can be read, nil for none; of
// any format for Auto.
func describedAs(format Format, line []byte) *description {
	for i := range descriptions {
		d := &descriptions[i]
		if format != Auto && format != d.format {
			continue
		}
		p, err := compileFormat(d, "", "")
		if err != nil {
			continue
		}
		if m := p.match(line); m != nil {
			at := 2 * p.groups[forTime]
			if _, err := new(clock).parse(string(line[m[at]:m[at+1]])); err == nil {
				return d
			}
		}
	}
	return nil
}

// uncolor returns a text without the escape sequences of a terminal around it.
func uncolor(text []byte) []byte {
	for bytes.HasPrefix(text, escapeSequence) {
		end := bytes.IndexByte(text, 'm')
		if end < 0 {
			break
		}
		text = text[end+1:]
	}
	if at := bytes.LastIndex(text, escapeSequence); at >= 0 && bytes.HasSuffix(text, []byte("[0m")) {
		text = text[:at]
	}
	return text
}

var escapeSequence = []byte("\x1b[")

// isDescribed reports whether a format is one of descriptions.
func isDescribed(format Format) bool {
	return slices.ContainsFunc(descriptions, func(d description) bool { return d.format == format })
}
