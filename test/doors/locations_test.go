package doors

import (
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/testnode"
)

// php starts a FastCGI application, as PHP is one, and returns its address.
func php(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // until the listener is closed
		_ = fcgi.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "PHP") }))
	}()
	return l.Addr().String()
}

// password is that of the user of the tests, and basic the header with it.
const (
	password = "maria:{PLAIN}secret\n"
	basic    = "Authorization: Basic bWFyaWE6c2VjcmV0"
)

// withLocations inserts locations of a site into a configuration for nginx.
func withLocations(t *testing.T, config string, locations ...string) string {
	t.Helper()
	before, after, found := strings.Cut(config, "listen 8000;\n")
	if !found {
		t.Fatalf("the configuration does not listen on port 8000:\n%s", config)
	}
	return before + "listen 8000;\n" + strings.Join(locations, "\n") + "\n" + after
}

// nginxConfigurations returns all configurations for nginx that are printed.
func nginxConfigurations(t *testing.T) map[string]string {
	t.Helper()
	quick, err := os.ReadFile(repository(t, "docs/quickstarts/nginx.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(quick), "```nginx\n")
	config, _, _ = strings.Cut(config, "server { listen 3000;")
	return map[string]string{"minimal": configuration(t, gateways[0], 0), "complete": configuration(t, gateways[0], 1), "quick start": config}
}

// TestNginxProtectsEveryLocation of a site, not only the one that has the path /.
func TestNginxProtectsEveryLocation(t *testing.T) {
	for name, config := range nginxConfigurations(t) {
		t.Run(name, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
			s.put("site", `{"match":["ip:*"],"rules":["100000/1s"]}`)
			fastcgi := "{ fastcgi_pass " + php(t) + "; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param SERVER_PROTOCOL $server_protocol; }"
			s.program(runNginx, withLocations(t, config,
				`location ~ \.php$ `+fastcgi,
				"recursive_error_pages on;",
				"location /api/ { proxy_pass http://127.0.0.1:3000; location /api/inner/ { proxy_pass http://127.0.0.1:3000; } }",
				"location /own/ { error_page 404 /missing; proxy_pass http://127.0.0.1:3000; }",
				"location /members/ { auth_basic members; auth_basic_user_file "+write(t, "passwords", password)+"; proxy_pass http://127.0.0.1:3000; }",
				`location ~ /\. { deny all; }`,
			))
			places := []string{"/", "/wp-login.php", "/api/", "/api/inner/", "/own/", "/members/"}
			for _, place := range places {
				s.expect(place, s.get(place, basic), http.StatusOK)
			}
			// A 401 and a 403 of nginx's own stay what they are, for a browser too.
			for _, accept := range []string{"Accept: */*", browserAccepts} {
				r := s.get("/members/", accept)
				s.expect("without a password, "+accept, r, http.StatusUnauthorized)
				if got := r.header.Get("WWW-Authenticate"); got != `Basic realm="members"` {
					t.Errorf("without a password, %s: the browser is asked for %q", accept, got)
				}
				s.expect("what nginx denies, "+accept, s.get("/.git/config", accept), http.StatusForbidden)
			}
			for _, address := range []string{client, "127.0.0.1"} {
				s.node.AddEntry(t, "blocks", `{"pattern":"ip:`+address+`","reason":"a test","expires_in":"1h"}`)
			}
			s.until("the block is known", func() bool { return s.get("/").status == http.StatusForbidden })
			s.app.forget()
			for _, place := range places {
				s.expect(place+" of a program", s.get(place, basic), http.StatusForbidden)
				r := s.get(place, basic, browserAccepts)
				if place == "/own/" && name != "quick start" { // it has lost the error_page of the server
					s.expect(place+" of a browser", r, http.StatusUnauthorized)
					continue
				}
				s.expect(place+" of a browser", r, http.StatusForbidden)
				if name != "quick start" && !strings.Contains(r.body, "Access is blocked") {
					t.Errorf("%s: a browser is not shown why it is refused: %s", place, r.body)
				}
			}
			if n := s.app.count(); n > 0 {
				t.Errorf("%d requests of a blocked client reached the application", n)
			}
		})
	}
}

// TestNginxChargesAFrontControllerOnce: nginx asks again when it goes on to index.php.
func TestNginxChargesAFrontControllerOnce(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
	s.put("site", `{"match":["ip:*"],"rules":["3/1d"]}`)
	s.program(runNginx, withLocations(t, configuration(t, gateways[0], 0),
		"location /shop/ { try_files /.none /index.php; }",
		"location = /index.php { fastcgi_pass "+php(t)+"; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param SERVER_PROTOCOL $server_protocol; }",
	))
	for range 3 {
		s.expect("within the limit", s.get("/shop/1"), http.StatusOK)
	}
	s.expect("beyond it", s.get("/shop/1"), http.StatusTooManyRequests)
}

// TestNginxAsksStintBeforeThePassword in the locations of the section Passwords.
func TestNginxAsksStintBeforeThePassword(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
	s.put("site", `{"match":["ip:*"],"rules":["100000/1s"]}`)
	locations := strings.NewReplacer("/etc/nginx/htpasswd", write(t, "passwords", password)).Replace(configuration(t, gateways[0], 2))
	s.program(runNginx, withLocations(t, configuration(t, gateways[0], 0), locations))
	r := s.get("/members/list", browserAccepts)
	s.expect("without a password", r, http.StatusUnauthorized)
	if r.header.Get("WWW-Authenticate") == "" {
		t.Errorf("a browser is not asked for the password: %v", r.header)
	}
	s.expect("with the password", s.get("/members/list", basic), http.StatusOK)
	if got := s.app.last(); got != "GET /members/list 0" {
		t.Errorf("the application was asked %s", got)
	}
	s.node.AddEntry(t, "blocks", `{"pattern":"ip:127.0.0.1","reason":"a test","expires_in":"1h"}`)
	s.until("the block is known", func() bool { return s.get("/members/list").status == http.StatusForbidden })
	s.expect("blocked, with a wrong password", s.get("/members/list", "Authorization: Basic bWFyaWE6eA=="), http.StatusForbidden)
}

// TestCaddyProtectsEveryRoute of a site.
func TestCaddyProtectsEveryRoute(t *testing.T) {
	for n := range 2 {
		t.Run([]string{"minimal", "complete"}[n], func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
			s.put("site", `{"match":["ip:*"],"rules":["100000/1s"]}`)
			config := configuration(t, gateways[1], n)
			at := strings.LastIndex(config, "reverse_proxy 127.0.0.1:3000") // where the page has the site
			s.program(runCaddy("caddy"), config[:at]+strings.Join([]string{
				"handle /handle {\n respond handle\n }", "handle_path /path/* {\n reverse_proxy 127.0.0.1:3000\n }", "route /route {\n reverse_proxy 127.0.0.1:3000\n }",
				"respond /respond respond", "reverse_proxy /proxy 127.0.0.1:3000", "php_fastcgi /php/* " + php(t),
			}, "\n")+"\n"+config[at:])
			routes := []string{"/", "/handle", "/path/a", "/route", "/respond", "/proxy", "/php/index.php"}
			for _, route := range routes {
				s.expect(route, s.get(route), http.StatusOK)
			}
			for _, address := range []string{client, "127.0.0.1"} {
				s.node.AddEntry(t, "blocks", `{"pattern":"ip:`+address+`","reason":"a test","expires_in":"1h"}`)
			}
			s.until("the block is known", func() bool { return s.get("/").status == http.StatusForbidden })
			for _, route := range routes {
				s.expect(route, s.get(route), http.StatusForbidden)
			}
		})
	}
}

// TestNginxChecksOneLocationInItsOwnWay, as the section "Which locations are protected" says.
func TestNginxChecksOneLocationInItsOwnWay(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
	s.put("site", `{"match":["ip:*"],"rules":["100000/1s"]}`)
	s.put("logins", `{"match":["login:*"],"rules":["1/1d"]}`)
	config := configuration(t, gateways[0], 0)
	_, own, _ := strings.Cut(config, "location = /_stint {")
	own, _, _ = strings.Cut(own, "location = /_open")
	s.program(runNginx, withLocations(t, config,
		"location = /_stint_login {"+strings.Replace(own, "refuse=401", "policy=logins&scope=login&refuse=401", 1),
		"location = /login { auth_request /_stint_login; proxy_pass http://127.0.0.1:3000; }",
	))
	s.expect("the first login", s.get("/login"), http.StatusOK)
	r := s.get("/login")
	s.expect("the second login", r, http.StatusTooManyRequests)
	if r.header.Get("Retry-After") == "" {
		t.Errorf("the location does not inherit the rest: %v", r.header)
	}
	if r := s.get("/login", browserAccepts); r.status != http.StatusTooManyRequests || !strings.Contains(r.body, "Too many requests") {
		t.Errorf("the page of a refused browser: got %d: %s", r.status, r.body)
	}
	s.node.AddEntry(t, "blocks", `{"pattern":"ip:127.0.0.1","reason":"a test","scope":"login","expires_in":"1h"}`)
	s.until("the block is known", func() bool { return s.get("/login").status == http.StatusForbidden })
	s.expect("another location", s.get("/"), http.StatusOK)
}

// TestHAProxyProtectsEveryBackend, also one that is chosen above the script.
func TestHAProxyProtectsEveryBackend(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
	s.put("site", `{"match":["ip:*"],"rules":["100000/1s"]}`)
	s.program(runHAProxy, strings.Replace(configuration(t, gateways[2], 0), "bind 127.0.0.1:8000\n", "bind 127.0.0.1:8000\n    use_backend other if { path_beg /other }\n", 1)+
		"\nbackend other\n    server other 127.0.0.1:3000\n")
	for _, path := range []string{"/", "/other/"} {
		s.until("Stint is asked and answers", func() bool { return s.get(path).status == http.StatusOK })
	}
	s.node.AddEntry(t, "blocks", `{"pattern":"ip:127.0.0.1","reason":"a test","expires_in":"1h"}`)
	s.until("the block is known", func() bool { return s.get("/").status == http.StatusForbidden })
	s.expect("another backend", s.get("/other/"), http.StatusForbidden)
}
