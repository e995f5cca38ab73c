package accesslog

import (
	"slices"
	"strings"
	"testing"
)

const describedCombined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

// FuzzLogFormat compares the fast path with the regular expression.
func FuzzLogFormat(f *testing.F) {
	formats := []string{
		describedCombined, `$http_x [$time_local] $remote_addr "$request" $status`, `$host $remote_addr - $remote_user [$time_local] "$request" $status`,
		`$msec|$remote_addr|$uri|$http_user_agent`, `$msec $status $uri $remote_addr`, `$remote_addr:$remote_port [$time] $_ $captures"$request"`,
	}
	var parsers []*formatParser
	for _, format := range formats {
		p, err := newFormatParser(Options{LogFormat: format}.description(), Options{})
		if err != nil {
			f.Fatal(err)
		}
		parsers = append(parsers, p)
	}
	f.Add(`192.0.2.1 - - [31/Jan/2026:23:05:03 +0100] "GET / HTTP/1.1" 200 512 "-" "a\"b"`)
	f.Add(`a [b [31/Jan/2026:23:05:03 +0100] 192.0.2.1 "GET / HTTP/1.1" 200`)
	f.Add("1769897103.0|192.0.2.1|/|a\xff|b")
	f.Add("1769897103.0 200 / 192.0.2.1 more")
	f.Add("::1:4711 [28/Nov/2026:13:00:01.123] - {a|b} \"GET / HTTP/1.1\"")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") {
			return
		}
		for i, p := range parsers {
			got, want := p.match([]byte(line)), p.shortest.FindSubmatchIndex([]byte(line))
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q: got %v, want %v", formats[i], line, got, want)
			}
		}
	})
}

func TestLogFormatNamesWhatIsMissing(t *testing.T) {
	for format, want := range map[string]string{
		`$remote_addr "$request"`:                        "no time",
		`[$time_local] "$request"`:                       "no client",
		`$remote_addr$time_local`:                        "nothing between two variables",
		`[$time_local] $host "$request" $status`:         "no client",
		`$remote_addr [$time_local] $status`:             "no request; name $request or $request_uri",
		`%t "%r" %>s`:                                    "no client; name $remote_addr",
		`$http_x_forwarded_for [$time_local] "$request"`: "clients write a part of $http_x_forwarded_for",
	} {
		if err := (Options{LogFormat: format}).CheckLogFormat(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", format, err, want)
		}
	}
	if _, err := NewLineParser([]byte("a line\n"), Options{LogFormat: describedCombined}); err == nil || !strings.Contains(err.Error(), "none of the first 1 lines is as --log-format says") {
		t.Errorf("a log of other lines: %v", err)
	}
}

// A text that a client writes before its address must not move the address.
func TestLogFormatLeavesOutWhatCanBeReadInTwoWays(t *testing.T) {
	o := Options{LogFormat: `$http_x $remote_addr - $remote_user [$time_local] "$request" $status`}
	const end = ` 192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200`
	p, err := NewLineParser([]byte("x"+end+"\n"), o)
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{
		"x": "", "x y": "", "x 198.51.100.98": "", "-": "",
		"x 198.51.100.98 - y": errTwoReadings.Error(),
	} {
		r, err := p.Parse([]byte(header + end))
		if want == "" && (err != nil || r.Key.String() != "ip:192.0.2.10") || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%q: got %v, %v, want %s", header, r.Key, err, want)
		}
	}
}
