package accesslog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/proxies"
)

// keysOf reads a log and returns the keys of its requests, or the error of the start.
func keysOf(t *testing.T, log string, o accesslog.Options) ([]string, accesslog.Counts, error) {
	t.Helper()
	reader, err := accesslog.NewReader(strings.NewReader(log), "access.log", o)
	if err != nil {
		return nil, accesslog.Counts{}, err
	}
	var all []string
	for _, r := range drain(t, reader) {
		all = append(all, r.Key.String())
	}
	return all, reader.Counts(), nil
}

func trusted(t testing.TB, text string) proxies.Trusted {
	t.Helper()
	all, err := proxies.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const victim = "198.51.100.98"

// TestTextOfTheClientIsNeverItsAddress writes requests in every layout that programs use, with an
// address as what the client sends: as the host, the user, the referer, the agent and a header.
// Either the true client is found, or the log is refused with the option that names its field.
func TestTextOfTheClientIsNeverItsAddress(t *testing.T) {
	const when = `[28/Nov/2026:13:00:01 +0000]`
	sent := map[string]struct{ host, user, referer, agent, forwarded string }{
		"nothing": {"www.example.com", "-", "-", "curl/8", "-"}, "a host": {victim, "-", "-", "curl/8", "-"},
		"a host with a port": {victim + ":443", "-", "-", "curl/8", "-"}, "a host of IPv6": {"[2001:db8::98]", "-", "-", "curl/8", "-"},
		"a user": {"www.example.com", victim, "-", "curl/8", "-"}, "a user of more": {"www.example.com", victim + " - x", "-", "curl/8", "-"},
		"a referer": {"www.example.com", "-", victim, "curl/8", "-"}, "an agent": {"www.example.com", "-", "-", victim, "-"},
		"a header": {"www.example.com", "-", "-", "curl/8", victim},
	}
	combined := `"GET / HTTP/1.1" 404 5 "REFERER" "AGENT"`
	layouts := map[string]struct {
		line, key, option string // option: in the error
	}{
		"combined":                  {`192.0.2.10 - USER ` + when + ` ` + combined, "ip:192.0.2.10", ""},
		"main of nginx":             {`192.0.2.10 - USER ` + when + ` ` + combined + ` "FORWARDED"`, "ip:192.0.2.10", ""},
		"vhost_combined":            {`HOST 192.0.2.10 - USER ` + when + ` ` + combined, "ip:192.0.2.10", "--log-format"},
		"client and host":           {`192.0.2.10 HOST - USER ` + when + ` ` + combined, "ip:192.0.2.10", "--log-format"},
		"host without a client":     {`HOST - USER ` + when + ` ` + combined, "", "--log-format"},
		"JSON of nginx":             {`{"time":"2026-11-28T13:00:01Z","host":"HOST","remote_addr":"192.0.2.10","remote_user":"USER","http_referer":"REFERER","http_user_agent":"AGENT","http_x_forwarded_for":"FORWARDED"}`, "ip:192.0.2.10", ""},
		"JSON without a client":     {`{"time":"2026-11-28T13:00:01Z","host":"HOST","remote":"192.0.2.10","user":"USER","referer":"REFERER","agent":"AGENT","key":"ip:HOST","x_forwarded_for":"FORWARDED"}`, "", "--key-column"},
		"JSON with a null client":   {`{"time":"2026-11-28T13:00:01Z","host":"HOST","remote_addr":null,"user":"USER"}`, "", "--key-column"},
		"JSON of Caddy":             {`{"ts":1764334801,"request":{"host":"HOST","remote_ip":"192.0.2.10","headers":{"Referer":["REFERER"],"User-Agent":["AGENT"],"X-Forwarded-For":["FORWARDED"],"Client_ip":["HOST"]}},"user_id":"USER"}`, "ip:192.0.2.10", ""},
		"JSON of Traefik":           {`{"time":"2026-11-28T13:00:01Z","RequestHost":"HOST","ClientUsername":"USER","ClientHost":"192.0.2.10","request_X-Forwarded-For":"FORWARDED","request_Client_ip":"HOST"}`, "ip:192.0.2.10", ""},
		"ECS":                       {`{"@timestamp":"2026-11-28T13:00:01Z","url":{"domain":"HOST"},"host":{"ip":"HOST"},"user.name":"USER","source":{"ip":"192.0.2.10"}}`, "ip:192.0.2.10", ""},
		"CSV":                       {"time,host,user,referer,agent,remote_addr\n1764334801,HOST,USER,REFERER,AGENT,192.0.2.10", "ip:192.0.2.10", ""},
		"CSV without a client":      {"time,host,user,referer,agent,key\n1764334801,HOST,USER,REFERER,AGENT,ip:HOST", "", "--log-format"},
		"docker around JSON":        {`{"log":"{\"time\":\"2026-11-28T13:00:01Z\",\"host\":\"HOST\",\"peer\":\"192.0.2.10\"}\n","stream":"stdout","time":"2026-11-28T13:00:01Z"}`, "", "--key-column"},
		"syslog around vhost lines": {`Nov 28 13:00:01 web1 nginx: HOST 192.0.2.10 - USER ` + when + ` ` + combined, "ip:192.0.2.10", "--log-format"},
	}
	for layout, l := range layouts {
		for what, s := range sent {
			line := strings.NewReplacer("HOST", s.host, "USER", s.user, "REFERER", s.referer, "AGENT", s.agent, "FORWARDED", s.forwarded).Replace(l.line)
			for _, more := range []string{"", strings.NewReplacer("HOST", "shop.example.com", "USER", "-", "REFERER", "-", "AGENT", "-", "FORWARDED", "-").Replace(l.line[strings.IndexByte(l.line, '\n')+1:]) + "\n"} {
				log := line + "\n" + more
				if layout == "host without a client" && more == "" && strings.Contains(s.host, "98") {
					continue // no program can distinguish it from a client
				}
				if l.key == "" || more == "" { // alone it may show too little
					if got, _, err := keysOf(t, log, accesslog.Options{}); err != nil && l.option != "" && strings.Contains(err.Error(), l.option) {
						continue
					} else if l.key == "" || err != nil || !slices.Equal(got, []string{l.key}) {
						t.Errorf("%s, %s: got %v, %v, want %q or an error with %q\n%s", layout, what, got, err, l.key, l.option, log)
					}
					continue
				}
				got, counts, err := keysOf(t, log, accesslog.Options{})
				if err != nil || !slices.Equal(got, []string{l.key, l.key}) {
					t.Errorf("%s, %s: got %v, %v, %+v, want %s\n%s", layout, what, got, err, counts.First, l.key, log)
				}
			}
		}
	}
}

// A name that an operator gives for the key is no address unless he says so.
func TestNamedHostIsNoAddress(t *testing.T) {
	got, _, err := keysOf(t, `{"time":1,"host":"`+victim+`","remote_addr":"192.0.2.1"}`, accesslog.Options{Key: "host"})
	if err != nil || !slices.Equal(got, []string{"host:" + victim}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestClientBehindProxiesIsFound reads lists of forwarded addresses wherever logs have them, as
// the server reads the header: from the right, past the trusted proxies.
func TestClientBehindProxiesIsFound(t *testing.T) {
	const line = ` - - [28/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8"`
	forwarded := func(list string) map[string]string {
		return map[string]string{
			"combined": `10.0.0.9` + line + ` "` + list + `"`,
			"Caddy":    `{"ts":1,"request":{"remote_ip":"10.0.0.9","headers":{"X-Forwarded-For":["` + strings.ReplaceAll(list, ", ", `","`) + `"]}}}`,
			"nginx":    `{"time":1,"remote_addr":"10.0.0.9","http_x_forwarded_for":"` + list + `"}`,
			"Traefik":  `{"time":1,"ClientHost":"10.0.0.9","request_X-Forwarded-For":"` + list + `"}`,
			"CSV":      "time,remote_addr,x_forwarded_for\n1,10.0.0.9,\"" + list + `"`,
		}
	}
	keyColumns := map[string]string{"combined": "x_forwarded_for", "Caddy": "request.headers.X-Forwarded-For", "nginx": "http_x_forwarded_for", "Traefik": "request_X-Forwarded-For", "CSV": "x_forwarded_for"}
	for _, test := range []struct{ list, key, named string }{
		{"203.0.113.7, 198.51.100.108", "ip:203.0.113.7", "ip:203.0.113.7"},
		{"203.0.113.7", "ip:203.0.113.7", "ip:203.0.113.7"},
		{"192.0.2.1, 203.0.113.7:4711, 10.0.0.1", "ip:203.0.113.7", "ip:203.0.113.7"},
		{"evil, 2001:db8:1:2::3, 10.0.0.1", "ip:2001:db8:1:2::/64", "ip:2001:db8:1:2::/64"},
		{"192.0.2.1, unknown, 10.0.0.1", "ip:10.0.0.1", "ip:10.0.0.1"},
		{"203.0.113.7, garbage", "", ""}, // it would charge the proxy
		{"-", "ip:10.0.0.9", ""},         // a request of the proxy itself
	} {
		for form, log := range forwarded(test.list) {
			if form == "combined" && test.list == "203.0.113.7, garbage" {
				log = forwarded("-")[form] + "\n" + strings.Repeat(forwarded("1.1.1.1")[form]+"\n", 5000) + log
			}
			for _, named := range []bool{false, true} {
				o := accesslog.Options{Proxies: trusted(t, "10.0.0.0/8, 198.51.100.108")}
				want := test.key
				if named {
					o.Key, want = keyColumns[form], test.named
				}
				got, counts, err := keysOf(t, log, o)
				if err != nil {
					t.Errorf("%s, %s: %v", form, test.list, err)
					continue
				}
				last := ""
				if len(got) > 0 && counts.Bad == 0 || len(got) > 5000 {
					last = got[len(got)-1]
				}
				if counts.Bad > 0 && test.key == "" {
					last = ""
				}
				if last != want || want == "" && (counts.Bad == 0 || counts.First[0].Why == "") {
					t.Errorf("%s, %s, named %t: got %q, %+v, want %q", form, test.list, named, last, counts, want)
				}
			}
		}
	}
	// A client that came past the proxies cannot name another one.
	for form, log := range forwarded(victim) {
		for _, named := range []bool{false, true} {
			o := accesslog.Options{Proxies: trusted(t, "10.0.0.0/8")}
			log := strings.ReplaceAll(log, "10.0.0.9", "192.0.2.66")
			if named {
				o.Key, log = keyColumns[form], strings.ReplaceAll(log, victim, "-")
			}
			if got, counts, err := keysOf(t, log, o); err != nil || !slices.Equal(got, []string{"ip:192.0.2.66"}) {
				t.Errorf("%s past the proxies: got %v, %v, %+v", form, got, err, counts.First)
			}
		}
	}
}

func TestListInFrontIsWalkedFromTheRight(t *testing.T) {
	const end = ` - - [28/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8"` + "\n"
	log := "203.0.113.5, 10.0.0.1" + end + "-" + end + "2001:db8:1:2::3, 10.0.0.1" + end + "198.51.100.9" + end + "evil text, 203.0.113.6, 10.0.0.1" + end +
		victim + " - x, 203.0.113.5, 10.0.0.1" + end
	if _, _, err := keysOf(t, log, accesslog.Options{}); err == nil || !strings.Contains(err.Error(), "--trusted-proxies") {
		t.Errorf("without proxies: %v", err)
	}
	got, counts, err := keysOf(t, log, accesslog.Options{Proxies: trusted(t, "10.0.0.0/8")})
	if err != nil || !slices.Equal(got, []string{"ip:203.0.113.5", "ip:2001:db8:1:2::/64", "ip:198.51.100.9", "ip:203.0.113.6"}) || counts.Bad != 2 || counts.First[1].Why != "the line can be read in more than one way, which a client may have wanted" {
		t.Errorf("got %v, %v, %+v", got, err, counts)
	}
	// A list that comes later, in a log that began without any.
	later := strings.Repeat("198.51.100.9"+end, 2000) + "192.0.2.1, 203.0.113.5" + end
	if got, counts, err := keysOf(t, later, accesslog.Options{}); err != nil || counts.Bad != 0 || got[2000] != "ip:203.0.113.5" {
		t.Errorf("got %v, %+v", err, counts)
	}
}

// Whatever a client sends, its line is a request or is counted.
func TestNoLineIsUnreadWithoutAReason(t *testing.T) {
	sent := []string{`\"`, `"`, `\x22`, `\\`, "\xff\xfe", strings.Repeat("a", 100_000), "", " ", "[", "]", "{", "}", ",", "\t", `" 200 1 "`, `\`, "\u2028", "198.51.100.98"}
	for _, layout := range []string{
		`192.0.2.10 - SENT [28/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 404 5 "-" "-"`,
		`192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /SENT HTTP/1.1" 404 5 "-" "-"`,
		`192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 404 5 "SENT" "SENT"`,
		`www.example.com 192.0.2.10 - SENT [28/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 404 5 "SENT" "SENT"`,
		`{"time":1,"remote_addr":"192.0.2.10","agent":"SENT","uri":"/SENT"}`,
		"time,remote_addr,agent\n1,192.0.2.10,\"SENT\"",
	} {
		for _, text := range sent {
			head := layout[:strings.IndexByte(layout, '\n')+1]
			log := strings.ReplaceAll(layout, "SENT", "x") + "\n" + strings.ReplaceAll(layout[len(head):], "SENT", text) + "\n"
			got, counts, err := keysOf(t, log, accesslog.Options{})
			if err != nil || counts.Lines != 2 || int64(len(got))+counts.Bad != 2 || slices.ContainsFunc(got, func(k string) bool { return k != "ip:192.0.2.10" }) {
				t.Errorf("%.40s with %.20q: got %v, %v, %+v", layout, text, got, err, counts)
			}
		}
	}
}

// TestLinesAreTakenOutOfWrappers reads one log in all that programs put around lines.
func TestLinesAreTakenOutOfWrappers(t *testing.T) {
	const inner = `192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /.env HTTP/1.1" 404 153 "-" "curl/8.1"`
	quoted := strings.ReplaceAll(inner, `"`, `\"`)
	bytesOf := func(text string) string {
		return strings.Trim(strings.ReplaceAll(fmt.Sprint([]byte(text)), " ", ","), "[]")
	}
	for name, test := range map[string]struct {
		log  string
		bad  int64
		want int
	}{
		"docker": {
			`{"log":"` + quoted + `\n","stream":"stdout","time":"2026-11-28T13:00:01.123456789Z"}` + "\n" +
				`{"log":"2026/11/28 13:00:03 [notice] 1#1: signal process started\n","stream":"stderr","time":"2026-11-28T13:00:03.1Z"}` + "\n", 1, 1,
		},
		"docker in parts": {
			`{"log":"` + quoted[:40] + `","stream":"stdout","time":"2026-11-28T13:00:01Z"}` + "\n" +
				`{"log":"an error\n","stream":"stderr","time":"2026-11-28T13:00:01Z"}` + "\n" +
				`{"log":"` + quoted[40:] + `\n","stream":"stdout","time":"2026-11-28T13:00:01Z"}` + "\n", 1, 1,
		},
		"CRI": {"2026-11-28T13:00:01.123456789Z stdout F " + inner + "\n", 0, 1},
		"CRI in parts": {
			"2026-11-28T13:00:01.1Z stdout P " + inner[:30] + "\n2026-11-28T13:00:01.1+01:00 stdout P " + inner[30:60] + "\n2026-11-28T13:00:01.1Z stdout F " + inner[60:] + "\n", 0, 1,
		},
		"syslog":          {"<190>Nov  8 13:00:01 web1 nginx: " + inner + "\nNov 28 13:00:01 web1 nginx[77]: " + inner + "\n", 0, 2},
		"syslog, ISO":     {"2026-11-28T13:00:01.123+00:00 web1 nginx: " + inner + "\n2026-11-28T13:00:01+0000 web1 nginx[1]: " + inner + "\n", 0, 2},
		"syslog RFC 5424": {"<190>1 2026-11-28T13:00:01Z web1 nginx 77 - - " + inner + "\n<190>1 2026-11-28T13:00:01Z web1 nginx 77 - [a@1 b=\"c\\]\"] \ufeff" + inner + "\n", 0, 2},
		"journald": {
			`{"MESSAGE":"` + quoted + `","__REALTIME_TIMESTAMP":"1764334801000000","_HOSTNAME":"web1"}` + "\n" +
				`{"MESSAGE":[` + bytesOf(strings.Replace(inner, "curl", "\xff", 1)) + `],"__REALTIME_TIMESTAMP":"1764334801000000"}` + "\n" +
				`{"MESSAGE":null,"__REALTIME_TIMESTAMP":"1764334801000000"}` + "\n", 1, 2,
		},
		"JSON in docker": {`{"log":"{\"time\":1,\"client_ip\":\"192.0.2.10\",\"uri\":\"/.env\",\"status\":404}\n","stream":"stdout","time":"2026-11-28T13:00:01Z"}` + "\n", 0, 1},
	} {
		reader, err := accesslog.NewReader(strings.NewReader(test.log), "", accesslog.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		records := drain(t, reader)
		if counts := reader.Counts(); len(records) != test.want || counts.Bad != test.bad || counts.Lines != counts.Records+counts.Bad {
			t.Errorf("%s: read %d, %+v", name, len(records), counts)
		}
		for _, r := range records {
			if r.Key.String() != "ip:192.0.2.10" || r.Path != "/.env" || r.Status != 404 {
				t.Errorf("%s: got %+v", name, r)
			}
		}
	}
}

func TestColumnsSayWhatTheLogHas(t *testing.T) {
	ecs := `{"@timestamp":"2026-11-28T13:00:01.000Z","source":{"ip":"192.0.2.10"},"url":{"original":"/.env","path":"/.env"},"http":{"request":{"method":"GET"},"response":{"status_code":404}},"user_agent":{"original":"curl/8"},"event":{"dataset":"nginx.access"}}` + "\n"
	dotted := `{"@timestamp":"2026-11-28T13:00:02.000Z","source.ip":"192.0.2.11","url.path":"/wp-login.php","http.request.method":"POST","http.response.status_code":401}` + "\n"
	reader, err := accesslog.NewReader(strings.NewReader(ecs+dotted), "", accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	records := drain(t, reader)
	if len(records) != 2 || records[0].Path != "/.env" || records[0].Status != 404 || records[0].Agent != "curl/8" || records[0].Method != "GET" ||
		records[1].Path != "/wp-login.php" || records[1].Status != 401 || records[1].Method != "POST" {
		t.Errorf("got %+v", records)
	}
	for log, want := range map[string]string{
		ecs: `JSON: time ("@timestamp"), client ("source.ip"), method ("http.request.method"), path ("url.original"), status ("http.response.status_code"), agent ("user_agent.original"); no host, no account`,
		`{"time":1,"ip":"192.0.2.1","url":{"x":1},"status":{"y":2}}`: `JSON: time (time), client ("ip"); no method, no path, no status, no agent, no host, no account`,
		"time,remote_addr,request\n1,192.0.2.1,GET / HTTP/1.1\n":     `CSV: time (time), client ("remote_addr"), method ("request"), path ("request"); no status, no agent, no host, no account`,
		common: `Common Log Format: time ([time]), client (the first field), method ("request"), path ("request"), status (status); no agent, no host, no account`,
	} {
		p, err := accesslog.NewLineParser([]byte(log), accesslog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Describe(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	p, err := accesslog.NewLineParser([]byte(`{"time":1,"ip":"192.0.2.1"}`), accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Columns().Missing(), "policies with a condition on the method, or with a condition on the path, or with an outcome, or with a condition on the agent, or with a condition on the host have nothing to look at in this log"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
