package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/conditions"
)

// wrapped returns a log within the lines of each wrapper, and compressed.
func wrapped(t *testing.T, log string) map[string]string {
	t.Helper()
	all := map[string]string{"": log}
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		all["docker"] += `{"log":` + strings.TrimSuffix(string(text), `"`) + `\n","stream":"stdout","time":"2026-11-28T13:00:01.1Z"}` + "\n"
		all["journald"] += `{"MESSAGE":` + string(text) + `,"__REALTIME_TIMESTAMP":"1795870801000000","_HOSTNAME":"web1"}` + "\n"
		all["CRI"] += "2026-11-28T13:00:01.1Z stdout F " + line + "\n"
		all["syslog"] += "Nov 28 13:00:01 web1 server[77]: " + line + "\n"
	}
	for name, text := range maps.Clone(all) {
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, _ = io.WriteString(w, text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		all[name+".gz"] = compressed.String()
	}
	return all
}

// TestLogsAreReadAsProgramsWriteThem reads one request in the format of each program, as its
// documentation or the program itself shows it, alone and within the lines of each wrapper.
func TestLogsAreReadAsProgramsWriteThem(t *testing.T) {
	const (
		w3cIIS        = "#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n#Date: 2026-11-28 13:00:00\r\n"
		fieldsIIS     = "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken\r\n"
		fieldsShorter = "#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status cs(User-Agent) cs-host\r\n"
	)
	haproxy := `192.0.2.10:4711 [28/Nov/2026:13:00:01.655] http-in~ bck/srv1 0/0/1/2/3 404 2750 - - ---- 1/1/0/0/0 0/0 `
	for name, test := range map[string]struct {
		log, format string
		proxies     string
		path, agent string // "" for those of the others
		host        string
	}{
		"HAProxy":               {log: haproxy + `"GET /.env HTTP/1.1"`, format: "HAProxy HTTP log", agent: "-"},
		"HAProxy with captures": {log: haproxy + `{shop.example.com|curl/8.1} {} "GET https://shop.example.com/.env HTTP/2.0"`, format: "HAProxy HTTP log", agent: "-", host: "shop.example.com"},
		"HAProxy in syslog":     {log: `Nov 28 13:00:01 lb haproxy[14387]: ` + haproxy + `"GET /.env HTTP/1.1"`, format: "HAProxy HTTP log within lines of syslog", agent: "-"},
		"ALB": {
			log:    `h2 2026-11-28T13:00:01.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.0.2.10:2817 10.0.0.1:80 0.000 0.001 0.000 404 404 34 366 "GET https://shop.example.com:443/.env HTTP/2.0" "curl/8.1" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012" 1 2026-11-28T13:00:01.186641Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_123456`,
			format: "AWS ALB log", host: "shop.example.com:443",
		},
		"ELB": {
			log:    `2026-11-28T13:00:01.943958Z my-loadbalancer 192.0.2.10:2817 10.0.0.1:80 0.000073 0.001048 0.000057 404 404 0 29 "GET http://shop.example.com:80/.env HTTP/1.1" "curl/8.1" - -`,
			format: "AWS ELB log", host: "shop.example.com:80",
		},
		"CloudFront": {
			log: "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol\n" +
				"2026-11-28\t13:00:01\tLAX1\t2390282\t192.0.2.10\tGET\td111111abcdef8.cloudfront.net\t/.env\t404\t-\tcurl/8.1%20x\t-\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\tshop.example.com\thttps",
			format: "W3C Extended Log Format", agent: "curl/8.1 x", host: "shop.example.com",
		},
		"IIS": {
			log:    w3cIIS + fieldsIIS + "2026-11-28 13:00:01 10.0.0.1 GET /.env a=1 443 - 192.0.2.10 curl/8.1+x - 404 0 2 15\r\n",
			format: "W3C Extended Log Format", path: "/.env?a=1", agent: "curl/8.1 x",
		},
		"IIS whose columns change": {
			log: w3cIIS + fieldsIIS + "2026-11-28 13:00:01 10.0.0.1 GET /.env - 443 - 192.0.2.10 curl/8.1 - 404 0 2 15\r\n" + w3cIIS + fieldsShorter +
				"2026-11-28 13:00:01 192.0.2.10 GET /.env - 404 curl/8.1 shop.example.com\r\n",
			format: "W3C Extended Log Format",
		},
		"Cloudflare Logpush":             {log: `{"ClientIP":"192.0.2.10","ClientRequestHost":"shop.example.com","ClientRequestMethod":"GET","ClientRequestURI":"/.env?x","ClientRequestPath":"/.env","ClientRequestUserAgent":"curl/8.1","EdgeEndTimestamp":"2026-11-28T13:00:02Z","EdgeResponseStatus":404,"EdgeStartTimestamp":"2026-11-28T13:00:01Z","RayID":"41ddf1740f67442d"}`, format: "JSON", path: "/.env?x", host: "shop.example.com"},
		"Cloudflare Logpush, nanosecond": {log: `{"ClientIP":"192.0.2.10","ClientRequestMethod":"GET","ClientRequestURI":"/.env","ClientRequestUserAgent":"curl/8.1","EdgeResponseStatus":404,"EdgeStartTimestamp":1795870801000000000}`, format: "JSON"},
		"ECS":                            {log: `{"@timestamp":"2026-11-28T13:00:01.000Z","source":{"ip":"192.0.2.10"},"url":{"original":"/.env"},"http":{"request":{"method":"GET"},"response":{"status_code":404}},"user_agent":{"original":"curl/8.1"}}`, format: "JSON"},
		"ECS, dotted":                    {log: `{"@timestamp":"2026-11-28T13:00:01.000Z","source.ip":"192.0.2.10","url.path":"/.env","http.request.method":"GET","http.response.status_code":404,"user_agent.original":"curl/8.1"}`, format: "JSON"},
		"ECS, half dotted":               {log: `{"@timestamp":"2026-11-28T13:00:01.000Z","source":{"ip":"192.0.2.10"},"url":{"path":"/.env"},"http.request":{"method":"GET"},"http.response":{"status_code":404},"user_agent.original":"curl/8.1"}`, format: "JSON"},
		"Envoy": {
			log:     `[2026-11-28T13:00:01.310Z] "GET /.env HTTP/2" 404 - 154 0 226 100 "192.0.2.10,10.0.0.1" "curl/8.1" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "shop.example.com" "tcp://10.0.2.1:80"`,
			proxies: "10.0.0.0/8", format: "Envoy log", host: "shop.example.com",
		},
		"Envoy of Istio": {
			log:    `[2026-11-28T13:00:01.310Z] "GET /.env HTTP/1.1" 404 - via_upstream - "-" 0 178 5 5 "-" "curl/8.1" "844e1f7c-1ea5-4a6e-a5d6-fa4d9b26bd6d" "shop.example.com" "10.1.1.2:8000" inbound|8000|| 127.0.0.6:54237 10.1.1.2:8000 192.0.2.10:42344 outbound_.8000_._.httpbin.foo.svc.cluster.local default`,
			format: "Envoy log of Istio", host: "shop.example.com",
		},
		"Envoy, JSON":          {log: `{"start_time":"2026-11-28T13:00:01.310Z","method":"GET","path":"/.env","response_code":404,"user_agent":"curl/8.1","x_forwarded_for":null,"authority":"shop.example.com","downstream_remote_address":"192.0.2.10:4711"}`, format: "JSON", host: "shop.example.com"},
		"Envoy, JSON, no peer": {log: `{"start_time":"2026-11-28T13:00:01.310Z","method":"GET","path":"/.env","response_code":404,"user_agent":"curl/8.1","x_forwarded_for":"1.1.1.1,192.0.2.10,10.0.0.1"}`, format: "JSON", proxies: "10.0.0.0/8"},
		"Werkzeug":             {log: `192.0.2.10 - - [28/Nov/2026 13:00:01] "GET /.env HTTP/1.1" 404 -`, format: "Werkzeug log", agent: "-"},
		"Werkzeug, colors":     {log: "192.0.2.10 - - [28/Nov/2026 13:00:01] \"\x1b[1m\x1b[33mGET /.env HTTP/1.1\x1b[0m\" 404 -", format: "Werkzeug log", agent: "-"},
		"Werkzeug, logging":    {log: `INFO:werkzeug:192.0.2.10 - - [28/Nov/2026 13:00:01] "GET /.env HTTP/1.1" 404 -`, format: "Werkzeug log of Python's logging", agent: "-"},
		"Werkzeug, forged end": {log: `192.0.2.10 - - [28/Nov/2026 13:00:01] "GET /.env" 200 - HTTP/1.1" 404 -`, format: "Werkzeug log", path: `/.env" 200 -`, agent: "-"},
		"uWSGI":                {log: `[pid: 12|app: 0|req: 3/9] 192.0.2.10 () {28 vars in 325 bytes} [Sat Nov 28 13:00:01 2026] GET /.env => generated 10 bytes in 1 msecs (HTTP/1.1 404) 2 headers in 79 bytes (1 switches on core 0)`, format: "uWSGI log", agent: "-"},
		"uWSGI, forged end": {
			log:    `[pid: 12|app: -|req: -/-] 192.0.2.10 (a b) {28 vars in 325 bytes} [Sat Nov 28 13:00:01 2026] GET /.env => generated 1 bytes in 1 msecs (HTTP/1.1 200) 2 headers in 7 bytes (1 switches on core 0) => generated 10 bytes in 1700 micros (HTTP/1.1 404) 2 headers in 79 bytes (2 switches on core 0)`,
			format: "uWSGI log", agent: "-", path: "/.env => generated 1 bytes in 1 msecs (HTTP/1.1 200) 2 headers in 7 bytes (1 switches on core 0)",
		},
		"Traefik, common":     {log: `192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /.env HTTP/1.1" 404 19 "-" "curl/8.1" 1 "web@docker" "http://10.0.0.1:80" 1ms`, format: "Common Log Format"},
		"Traefik, JSON":       {log: `{"ClientAddr":"192.0.2.10:1234","ClientHost":"192.0.2.10","DownstreamStatus":404,"RequestHost":"shop.example.com","RequestMethod":"GET","RequestPath":"/.env","StartUTC":"2026-11-28T13:00:01Z","request_User-Agent":"curl/8.1","request_Uri":"/x","time":"2026-11-28T13:00:01Z"}`, format: "JSON", host: "shop.example.com"},
		"nginx, JSON":         {log: `{"time":"2026-11-28T13:00:01+00:00","remote_addr":"192.0.2.10","request_method":"GET","request_uri":"/.env","uri":"/index.php","status":"404","http_user_agent":"curl/8.1\x22","http_host":"shop.example.com"}`, format: "JSON", agent: `curl/8.1"`, host: "shop.example.com"},
		"nginx, escapes":      {log: `192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /\x22.env\xC3\xA4 HTTP/1.1" 404 153 "-" "curl/8.1\x22\x5C"`, format: "Common Log Format", path: `/".envä`, agent: `curl/8.1"\`},
		"nginx, no host":      {log: ` 192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /.env HTTP/1.1" 404 153 "-" "curl/8.1"`, format: "Common Log Format"},
		"Apache, vhost":       {log: `shop.example.com:443 192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /.env HTTP/1.1" 404 153 "-" "curl/8.1"`, format: "Common Log Format", host: "shop.example.com:443"},
		"journalctl":          {log: `Nov 28 13:00:01 web1 nginx[77]: 192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /.env HTTP/1.1" 404 153 "-" "curl/8.1"`, format: "Common Log Format within lines of syslog"},
		"journalctl, precise": {log: `Nov 28 13:00:01.123456 web1 nginx[77]: 192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /.env HTTP/1.1" 404 153 "-" "curl/8.1"`, format: "Common Log Format within lines of syslog"},
		"journalctl, full":    {log: `Sat 2026-11-28 13:00:01 UTC web1 nginx[77]: 192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET /.env HTTP/1.1" 404 153 "-" "curl/8.1"`, format: "Common Log Format within lines of syslog"},
	} {
		if test.path == "" {
			test.path = "/.env"
		}
		switch test.agent {
		case "":
			test.agent = "curl/8.1"
		case "-":
			test.agent = ""
		}
		logs := wrapped(t, strings.TrimSuffix(test.log, "\r\n")+"\n")
		if in := "syslog"; strings.HasSuffix(test.format, " within lines of "+in) { // one wrapper is within no other
			logs = map[string]string{in: logs[""], in + ".gz": logs[".gz"]}
			test.format = strings.TrimSuffix(test.format, " within lines of "+in)
		}
		for wrapper, log := range logs {
			t.Run(name+" in "+wrapper, func(t *testing.T) {
				reader, err := accesslog.NewReader(strings.NewReader(log), "", accesslog.Options{Proxies: trusted(t, test.proxies), Zone: time.UTC})
				if err != nil {
					t.Fatal(err)
				}
				records := drain(t, reader)
				format := test.format
				if in := strings.TrimSuffix(wrapper, ".gz"); in != "" {
					format += " within lines of " + in
				}
				if describes := reader.Parser().Describe(); !strings.HasPrefix(describes, format+": ") {
					t.Errorf("it is read as %s", describes)
				}
				if counts := reader.Counts(); counts.Bad > 0 || len(records) == 0 {
					t.Errorf("got %+v", counts)
				}
				at := time.Date(2026, 11, 28, 13, 0, 1, 0, time.UTC).UnixMilli()
				for _, r := range records {
					if r.Key.String() != "ip:192.0.2.10" || r.Time/1000*1000 != at || r.Method != "GET" || r.Path != test.path || r.Status != 404 || r.Agent != test.agent || test.host != "" && r.Host != test.host {
						t.Errorf("got %+v", r)
					}
				}
			})
		}
	}
}

// The default text of Envoy says only in X-Forwarded-For where a request came from.
func TestEnvoyIsRefusedWithoutItsProxies(t *testing.T) {
	line := func(list, agent string) string {
		return `[2026-11-28T13:00:01.310Z] "GET / HTTP/2" 404 - 154 0 226 100 "` + list + `" "` + agent + `" "cc21d9b0" "shop.example.com" "tcp://10.0.2.1:80"` + "\n"
	}
	if _, _, err := keysOf(t, line("192.0.2.1", "curl"), accesslog.Options{}); err == nil || !strings.Contains(err.Error(), "clients write a part of $http_x_forwarded_for; name your proxies with --trusted-proxies") {
		t.Errorf("without proxies: %v", err)
	}
	if _, _, err := keysOf(t, `{"start_time":"2026-11-28T13:00:01Z","path":"/","x_forwarded_for":"192.0.2.1"}`, accesslog.Options{}); err == nil || !strings.Contains(err.Error(), "--trusted-proxies") {
		t.Errorf("JSON without proxies: %v", err)
	}
	// Envoy leaves quotes of clients as they are: none of them moves the address.
	for name, test := range map[string]struct{ list, agent, want string }{
		"nothing":              {"192.0.2.1", "curl", "ip:192.0.2.1"},
		"a quote":              {"192.0.2.1", `cu"rl`, "ip:192.0.2.1"},
		"an end in the agent":  {"192.0.2.1", `curl" "x`, ""},
		"an end in the header": {victim + `" "curl, 192.0.2.1`, "curl", ""},
	} {
		got, counts, err := keysOf(t, line("192.0.2.9", "curl")+line(test.list, test.agent), accesslog.Options{Proxies: trusted(t, "10.0.0.0/8")})
		if err != nil || test.want == "" && (len(got) != 1 || counts.Bad != 1) || test.want != "" && (len(got) != 2 || got[1] != test.want) {
			t.Errorf("%s: got %v, %v, %+v", name, got, err, counts)
		}
	}
}

// TestTimesOfCaddyAreRead reads each time_format that its documentation names.
func TestTimesOfCaddyAreRead(t *testing.T) {
	want := time.Date(2026, 11, 28, 13, 0, 1, 0, time.UTC)
	for name, text := range map[string]string{
		"unix_seconds_float": "1795870801.123", "unix_milli_float": "1795870801123.456", "unix_nano": "1795870801123456789", "iso8601": `"2026-11-28T14:00:01.123+0100"`,
		"rfc3339": `"2026-11-28T13:00:01Z"`, "rfc3339_nano": `"2026-11-28T13:00:01.123456789Z"`, "wall": `"2026/11/28 13:00:01"`, "wall_milli": `"2026/11/28 13:00:01.123"`,
		"wall_nano": `"2026/11/28 13:00:01.123456789"`, "common_log": `"28/Nov/2026:14:00:01 +0100"`, "http": `"Sat, 28 Nov 2026 13:00:01 GMT"`,
	} {
		reader, err := accesslog.NewReader(strings.NewReader(`{"level":"info","ts":`+text+`,"request":{"remote_ip":"192.0.2.10"}}`+"\n"), "", accesslog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := reader.Next(); err != nil || r.Time/1000 != want.Unix() {
			t.Errorf("%s: got %+v, %v, %+v", name, r, err, reader.Counts())
		}
	}
	zone := time.FixedZone("", 3600)
	reader, err := accesslog.NewReader(strings.NewReader(`{"ts":"2026/11/28 14:00:01","request":{"remote_ip":"192.0.2.10"}}`+"\n"), "", accesslog.Options{Zone: zone})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := reader.Next(); err != nil || r.Time != want.UnixMilli() {
		t.Errorf("in a zone: got %+v, %v", r, err)
	}
}

func TestApacheFormatsAreRead(t *testing.T) {
	const end = ` [28/Nov/2026:13:00:01 +0000] "GET /.env HTTP/1.1" 404 5 "-" "curl/8.1"`
	for format, log := range map[string]string{
		`%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`:                "192.0.2.10 - a b" + end,
		`%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"`:    "198.51.100.98:443 192.0.2.10 - -" + end,
		`%{Host}i %a %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %D`:    "x y 192.0.2.10 - -" + end + " 15",
		`[%{%Y-%m-%dT%H:%M:%S%z}t] %a "%m %U%q %H" %s "%{User-agent}i"`:         `[2026-11-28T13:00:01+0000] 192.0.2.10 "GET /.env HTTP/1.1" 404 "curl/8.1"`,
		`%{msec}t %a %{c}a %m %U %s "%{User-agent}i" %{UNIQUE_ID}e`:             `1795870801000 192.0.2.10 10.0.0.1 GET /.env 404 "curl/8.1" X`,
		`$host $remote_addr - $remote_user [$time_local] "$request" $status $x`: "198.51.100.98 192.0.2.10 - -" + end,
	} {
		for wrapper, lines := range wrapped(t, log+"\n") {
			reader, err := accesslog.NewReader(strings.NewReader(lines), "", accesslog.Options{LogFormat: format})
			if err != nil {
				t.Errorf("%s in %s: %v", format, wrapper, err)
				continue
			}
			r, err := reader.Next()
			if err != nil || r.Key.String() != "ip:192.0.2.10" || r.Path != "/.env" || r.Method != "GET" || r.Status != 404 || r.Time != 1795870801000 {
				t.Errorf("%s in %s: got %+v, %v, %+v", format, wrapper, r, err, reader.Counts())
			}
		}
	}
}

// A log that begins with what clients send is read within syslog, where the text of the wrapper could be a part
// of that, and without it, where a client has sent what looks like the wrapper.
func TestTextOfClientsInFrontIsNoWrapper(t *testing.T) {
	const format = `$http_x_forwarded_for - $remote_user [$time_local] "$request" $status`
	const end = ` - - [28/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200`
	const header = "Nov 28 13:00:01 web1 nginx: "
	for name, log := range map[string]string{
		"within syslog": header + "203.0.113.7, 10.0.0.1" + end + "\n" + header + "198.51.100.1, 203.0.113.7, 10.0.0.1" + end + "\n",
		"as it is":      "203.0.113.7, 10.0.0.1" + end + "\n" + header + "198.51.100.1, 203.0.113.7, 10.0.0.1" + end + "\n",
		"forged first":  header + "198.51.100.1, 203.0.113.7, 10.0.0.1" + end + "\n" + "203.0.113.7, 10.0.0.1" + end + "\n",
	} {
		reader, err := accesslog.NewReader(strings.NewReader(log), "", accesslog.Options{LogFormat: format, Proxies: trusted(t, "10.0.0.0/8")})
		if err != nil {
			t.Fatal(err)
		}
		records := drain(t, reader)
		for _, r := range records {
			if r.Key.String() != "ip:203.0.113.7" {
				t.Errorf("%s: %s is taken for the client", name, r.Key)
			}
		}
		if len(records) != 2 {
			t.Errorf("%s: %d of 2 lines are read: %+v", name, len(records), reader.Counts())
		}
	}
}

func TestSkippedPathsAreCounted(t *testing.T) {
	when, err := conditions.Parse(conditions.Texts{"path": {"/static/*", "/health"}})
	if err != nil {
		t.Fatal(err)
	}
	log := ""
	for _, path := range []string{"/static/a.css", "/%73tatic/b.css?x", "/health", "/", "/x/static/", "/static/..%2flogin", "/static/..;/login", "/static/../login"} {
		log += `192.0.2.10 - - [28/Nov/2026:13:00:01 +0000] "GET ` + path + ` HTTP/1.1" 200 5` + "\n"
	}
	reader, err := accesslog.NewReader(strings.NewReader(log), "", accesslog.Options{SkipPaths: when})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; err == nil; n++ {
		_, err = reader.Next()
	}
	if counts := reader.Counts(); !errors.Is(err, io.EOF) || n != 6 || counts.Skipped != 3 || counts.Records != 5 || counts.Lines != 8 || counts.Bad != 0 {
		t.Errorf("got %d requests, %+v, %v", n, counts, err)
	}
}
