package fibermw_test

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/fibermw"
	"github.com/stint-dev/stint/test/testnode"
)

func TestMain(m *testing.M) { testnode.Main(m) }

func connect(t testing.TB, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, append([]client.Option{client.WithTimeout(time.Minute)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func shared(t testing.TB) *client.Client { return connect(t, os.Getenv(testnode.CheckURL)) }

func site(config fibermw.Config) *fiber.App {
	app := fiber.New()
	app.Use(fibermw.New(config))
	app.Get("/", func(c *fiber.Ctx) error {
		if d := fibermw.DecisionOf(c); d != nil {
			return c.SendString(string(d.Outcome))
		}
		return nil
	})
	return app
}

func visit(t testing.TB, app *fiber.App, me string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Client", me)
	response, err := app.Test(r, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func byHeader(c *fiber.Ctx) string { return "site:" + c.Get("X-Client") }

func TestMiddlewareSetsRateLimitHeadersAndRefusesWith429And403(t *testing.T) {
	app, me := site(fibermw.Config{Client: shared(t), Key: byHeader}), rand.Text()
	for range 3 {
		r, body := visit(t, app, me)
		if r.StatusCode != 200 || body != "allowed" || r.Header.Get("RateLimit-Policy") != `"3/1d";q=3;w=86400` || r.Header.Get("RateLimit") == "" {
			t.Errorf("an allowed request: got %d %s %v", r.StatusCode, body, r.Header)
		}
	}
	r, body := visit(t, app, me)
	if r.StatusCode != 429 || r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Retry-After") == "" || !strings.Contains(body, `"violated-policies":["3/1d"]`) {
		t.Errorf("a limited request: got %d %s %v", r.StatusCode, body, r.Header)
	}
	testnode.Shared().Do(t, "POST", "/v1/blocks", `{"pattern":"site:`+me+`"}`, 201)
	if r, body = visit(t, app, me); r.StatusCode != 403 || r.Header.Get("Retry-After") != "" || strings.Contains(body, me) {
		t.Errorf("a blocked request: got %d %s %v", r.StatusCode, body, r.Header)
	}
}

func TestPathsOfChallengesAreExact(t *testing.T) {
	app := fiber.New()
	app.Use(fibermw.New(fibermw.Config{Client: shared(t), Key: byHeader}), func(c *fiber.Ctx) error { return c.SendString("the application") })
	for path, isOwn := range map[string]bool{"../../secret": false, "%2e%2e/%2e%2e/v1/openapi.json": false, "pass/../../../secret": false, "%63hallenge": false, "": false, "challenge?to=/a": true, "pass": true} {
		r := httptest.NewRequest(http.MethodGet, client.ChallengePrefix+path, nil)
		r.Header.Set("X-Client", rand.Text())
		response, err := app.Test(r, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || (string(text) == "the application") == isOwn {
			t.Errorf("%s: %v, %d, %s", path, err, response.StatusCode, text)
		}
	}
}

// fiber reuses the memory of a key for the next request, so that a key that is
// cached must be a copy.
func TestRememberCopiesTheKey(t *testing.T) {
	app := site(fibermw.Config{Client: shared(t), Key: byHeader, Remember: true})
	refused, others := rand.Text(), []string{rand.Text(), rand.Text(), rand.Text()}
	for range 5 {
		visit(t, app, refused)
	}
	for _, other := range others {
		if r, _ := visit(t, app, other); r.StatusCode != 200 {
			t.Errorf("another key, %s: got %d, want 200", other, r.StatusCode)
		}
	}
	if r, _ := visit(t, app, refused); r.StatusCode != 429 {
		t.Errorf("the refused key: got %d, want 429", r.StatusCode)
	}
}

func TestMiddlewareUsesPolicyKeyAndCost(t *testing.T) {
	me := rand.Text()
	app := site(fibermw.Config{
		Client: shared(t), Policy: "users", Key: byHeader, Cost: func(*fiber.Ctx) int { return 3 },
		Meta: func(c *fiber.Ctx) map[string]string { return map[string]string{"path": c.Path()} },
	})
	for _, want := range []int{200, 429} {
		if r, body := visit(t, app, me); r.StatusCode != want {
			t.Errorf("got %d, want %d: %s", r.StatusCode, want, body)
		}
	}
	if r, body := visit(t, site(fibermw.Config{Client: shared(t), Key: func(*fiber.Ctx) string { return "" }}), me); r.StatusCode != 200 || body != "" {
		t.Errorf("a request without a key: got %d %s, want 200", r.StatusCode, body)
	}
}

func TestMiddlewareFollowsTheOutageMode(t *testing.T) {
	for outage, want := range map[client.OnOutage]int{client.ReturnError: 503, client.FailOpen: 200, client.FailClosed: 503} {
		var reported error
		away := connect(t, "http://127.0.0.1:1", client.WithOutage(outage))
		app := site(fibermw.Config{Client: away, OnError: func(_ *fiber.Ctx, err error) { reported = err }})
		r, _ := visit(t, app, "")
		var failed *client.OutageError
		if r.StatusCode != want || !errors.As(reported, &failed) {
			t.Errorf("got %d, want %d; reported %v", r.StatusCode, want, reported)
		}
	}
}

func TestAddressKeysIgnoreForgedForwardedHeaders(t *testing.T) {
	keys := map[string]string{}
	app := fiber.New()
	app.Get("/", func(c *fiber.Ctx) error {
		keys["alone"] = fibermw.AddressKey(c)
		keys["behind"] = fibermw.AddressKeyBehind(netip.MustParsePrefix("0.0.0.0/32"))(c)
		keys["elsewhere"] = fibermw.AddressKeyBehind(netip.MustParsePrefix("10.0.0.0/8"))(c)
		return nil
	})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header["X-Forwarded-For"] = []string{"192.0.2.1", "198.51.100.1"}
	if _, err := app.Test(r, -1); err != nil {
		t.Fatal(err)
	}
	// fiber's test connection comes from 0.0.0.0.
	for name, want := range map[string]string{"alone": "ip:0.0.0.0", "behind": "ip:198.51.100.1", "elsewhere": "ip:0.0.0.0"} {
		if keys[name] != want {
			t.Errorf("%s: got %s, want %s", name, keys[name], want)
		}
	}
}

func TestPolicyConditionsMatchTheRequest(t *testing.T) {
	node := testnode.Start(t)
	node.Do(t, http.MethodPut, "/v1/policies/trap?confirm=trap",
		`{"match":["token:*"],"rules":["0/1s"],"when":{"path":["/.env*"],"agent":["*sqlmap*"],"host":["shop.example"],"method":["GET"]}}`, http.StatusCreated)
	app := fiber.New()
	app.Use(fibermw.New(fibermw.Config{Client: connect(t, node.Check), Key: func(c *fiber.Ctx) string { return "token:" + c.Get("X-Client") }}))
	app.Get("/*", func(c *fiber.Ctx) error { return nil })
	for i, c := range []struct {
		target, agent, host string
		status              int
	}{
		{"/%2eenv?x=1", "sqlMap/1.8", "Shop.example:80", http.StatusTooManyRequests},
		{"/env?/.env", "sqlmap", "shop.example", http.StatusOK},
		{"/.env", "curl", "shop.example", http.StatusOK},
		{"/.env", "sqlmap", "other.example", http.StatusOK},
	} {
		r := httptest.NewRequest(http.MethodGet, c.target, nil)
		r.Host = c.host
		r.Header.Set("User-Agent", c.agent)
		r.Header.Set("X-Client", strings.Repeat("x", i+1))
		response, err := app.Test(r, -1)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%+v: got status %d", c, response.StatusCode)
		}
	}
}
