package accesslog_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/accesslog"
)

func TestRecordHasTheFieldsOfTheRequest(t *testing.T) {
	for _, test := range []struct {
		name, log string
		options   accesslog.Options
		want      accesslog.Record
	}{
		{"Combined Log Format", common + ` "-" "curl/8"`, accesslog.Options{}, accesslog.Record{Path: "/", Method: "GET", Agent: "curl/8", Status: 200}},
		{"no request line", `192.0.2.1 - - [31/Jan/2026:22:05:03 +0000] "-" 408 0 "-" "-"`, accesslog.Options{}, accesslog.Record{Status: 408}},
		{
			"JSON", `{"time":1,"ip":"192.0.2.1","request":"POST /a?b HTTP/1.1","status":401,"user_agent":"x","host":"example.org"}`,
			accesslog.Options{}, accesslog.Record{Path: "/a?b", Method: "POST", Agent: "x", Host: "example.org", Status: 401},
		},
		{"JSON with another status", `{"time":1,"ip":"192.0.2.1","status":{"x":1}}`, accesslog.Options{}, accesslog.Record{}},
		{
			"JSON of Caddy", `{"ts":1,"request":{"client_ip":"192.0.2.1","method":"GET","host":"a.example","uri":"/x","headers":{"User-Agent":["bot"]}},"status":200}`,
			accesslog.Options{}, accesslog.Record{Path: "/x", Method: "GET", Agent: "bot", Host: "a.example", Status: 200},
		},
		{
			"JSON of Traefik", `{"time":"2026-01-31T22:05:03Z","ClientHost":"192.0.2.1","RequestMethod":"GET","RequestPath":"/y","RequestHost":"b.example","DownstreamStatus":502,"request_User-Agent":"z"}`,
			accesslog.Options{}, accesslog.Record{Path: "/y", Method: "GET", Agent: "z", Host: "b.example", Status: 502},
		},
		{
			"JSON of Traefik with headers of the client", `{"request_Uri":"/robots.txt","request_Method":"GET","request_Line":"GET / HTTP/1.1","time":"2026-01-31T22:05:03Z","ClientHost":"192.0.2.1","RequestMethod":"POST","RequestPath":"/y","DownstreamStatus":404}`,
			accesslog.Options{}, accesslog.Record{Path: "/y", Method: "POST", Status: 404},
		},
		{"CSV", "time,ip,status,url,host\n1,192.0.2.1,404,/z,c.example", accesslog.Options{}, accesslog.Record{Path: "/z", Host: "c.example", Status: 404}},
		{
			"the last address of X-Forwarded-For", strings.Replace(common, "192.0.2.1", "10.0.0.1", 1) + ` "-" "-" "198.51.100.9, 192.0.2.1"`,
			accesslog.Options{Key: "x_forwarded_for"}, accesslog.Record{Path: "/", Method: "GET", Status: 200},
		},
		{
			"X-Forwarded-For in JSON", `{"time":1,"ip":"10.0.0.1","http_x_forwarded_for":"spoofed, 192.0.2.1"}`,
			accesslog.Options{Key: "http_x_forwarded_for"}, accesslog.Record{},
		},
		{
			"JSON with invalid UTF-8", "{\"time\":1,\"ip\":\"192.0.2.1\",\"uri\":\"/login?\xff\",\"user_agent\":\"bot\xff\",\"account\":\"al\xff\"}",
			accesslog.Options{Account: "account"}, accesslog.Record{Path: "/login?\uFFFD", Agent: "bot\uFFFD", Account: "al\uFFFD"},
		},
		{
			"JSON with half a surrogate pair", `{"time":1,"ip":"192.0.2.1","request":"GET /login?\ud800 HTTP/1.1"}`,
			accesslog.Options{}, accesslog.Record{Path: "/login?\uFFFD", Method: "GET"},
		},
		{
			"X-Forwarded-For in JSON of Caddy", `{"ts":1,"request":{"client_ip":"10.0.0.1","headers":{"X-Forwarded-For":["spoofed","198.51.100.9, 192.0.2.1"]}}}`,
			accesslog.Options{Key: "request.headers.X-Forwarded-For"}, accesslog.Record{},
		},
		{
			"X-Forwarded-For with invalid UTF-8 in JSON", "{\"time\":1,\"http_x_forwarded_for\":\"\xff, 192.0.2.1\"}",
			accesslog.Options{Key: "http_x_forwarded_for"}, accesslog.Record{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			records, counts := read(t, test.log, test.options)
			if len(records) != 1 || counts.Bad != 0 {
				t.Fatalf("read %d records, bad lines: %+v", len(records), counts.First)
			}
			got := records[0]
			if got.Key.String() != "ip:192.0.2.1" {
				t.Errorf("the key is %s", got.Key)
			}
			test.want.Time, test.want.Key, test.want.Cost = got.Time, got.Key, got.Cost
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Lines that are parsed one by one give the same requests as the whole log.
func TestLineParserMatchesReader(t *testing.T) {
	for _, log := range []string{
		common + "\n\ngarbage\n" + common + "\r\n",
		"\ufeff\n{\"time\":1,\"ip\":\"192.0.2.1\"}\n{\n[]\n",
		"\ufefftime,ip\n1,192.0.2.1\n\n1,\"x\n2,192.0.2.2\n",
		"cut off\" 200 5\n" + common,
	} {
		want, counts := read(t, log, accesslog.Options{})
		lines := strings.SplitAfter(log, "\n")
		p, err := accesslog.NewLineParser([]byte(log), accesslog.Options{})
		if err != nil {
			t.Fatalf("%q: %v", log, err)
		}
		var got []accesslog.Record
		bad := int64(0)
		for _, line := range lines {
			if p.IsBlank([]byte(line)) {
				continue
			}
			if r, err := p.Parse([]byte(line)); err != nil {
				bad++
			} else {
				got = append(got, r)
			}
		}
		if len(got) != len(want) || bad != counts.Bad {
			t.Fatalf("%q: %d requests and %d bad lines, want %d and %d", log, len(got), bad, len(want), counts.Bad)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: request %d is %+v, want %+v", log, i, got[i], want[i])
			}
		}
	}
	for _, o := range []accesslog.Options{{}, {Format: accesslog.CSV}, {Format: "x"}} {
		if _, err := accesslog.NewLineParser([]byte("garbage\n"), o); err == nil {
			t.Errorf("NewLineParser of garbage with %+v: got no error", o)
		}
	}
	if _, err := accesslog.NewLineParser(nil, accesslog.Options{Format: accesslog.CSV}); err == nil {
		t.Error("NewLineParser of a CSV without a header: got no error")
	}
}
