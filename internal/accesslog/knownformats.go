package accesslog

import "slices"

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

// isDescribed reports whether a format is one of descriptions.
func isDescribed(format Format) bool {
	return slices.ContainsFunc(descriptions, func(d description) bool { return d.format == format })
}
