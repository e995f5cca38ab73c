package bench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// describing measures what policies cost that look at the request and find nothing: two nodes, one without those
// policies, are asked the same.
func describing(b *testing.B, r *report) {
	p := build(b)
	r.begin("A check that looks at the request, over HTTP", fmt.Sprintf("Processor time of the node, embedded; %d connections, 100,000 keys, %d runs of %s, alternating with a node without those policies; medians. No request meets a condition.",
		holdConnections, holdRounds, holdTime))
	atMost := func(name string, most float64, furnish func(n node), ask exchanger, policies ...map[string]any) {
		plain, looking := startNode(b, p, "--trusted-proxies", "127.0.0.1"), startNode(b, p, "--trusted-proxies", "127.0.0.1")
		furnish(plain)
		furnish(looking)
		for _, policy := range policies {
			text, err := json.Marshal(policy)
			if err != nil {
				b.Fatal(err)
			}
			looking.admit(b, http.MethodPut, fmt.Sprint("/v1/policies/", policy["name"]), string(text))
		}
		of, looks, ratio := compare(b, plain, looking, ask, ask)
		r.atMost(name, ratio, most, "%.2f", fmt.Sprintf("(%.1f of %.1f µs)", looks, of))
	}

	items := make([]string, 30)
	for i := range items {
		items[i] = "1 path"
		for j := range 10 {
			items[i] += fmt.Sprintf(" */trap-%d-%d/*", i, j)
		}
	}
	atMost("evidence of 300 conditions", 1.1, func(n node) { n.furnish(b) }, checkDescribed,
		map[string]any{"name": "suspicion", "match": []string{"allow:*"}, "rules": []string{"20 points/1h", "30 points/1d"}, "evidence": items})

	var policies []map[string]any
	for attribute, patterns := range map[string]any{
		"path": []string{"/trap/*"}, "method": []string{"TRACE"}, "agent": []string{"*nikto*"}, "host": []string{"trap.example.org"}, "scheme": []string{"http"}, "ja4": []string{"t10*"},
		"country": []string{"AQ"}, "asn": []string{"64500"}, "bot": []string{"openai/*"}, "category": []string{"ai-training"}, "verified": []string{"signature"},
		"header": map[string][]string{"x-trap": {"*"}}, "query": map[string][]string{"trap": {"*"}}, "cookie": map[string][]string{"trap": {"*"}},
	} {
		policies = append(policies, map[string]any{"name": attribute, "match": []string{"ip:*"}, "rules": []string{"1/s"}, "when": map[string]any{attribute: patterns}})
	}
	atMost("conditions on every attribute, by a gateway's request", 1.08, func(n node) { n.policy(b, "ip", `"1000/s"`) }, forwardDescribed, policies...)
}

// checkDescribed checks a key with its request.
func checkDescribed(connection io.Writer, answers *bufio.Reader, key int) error {
	_, err := exchange(connection, answers, "/v1/check", fmt.Sprintf(`{"key":"allow:%d","detail":"none","request":{"path":"/articles/%[1]d/november","method":"GET","agent":%q,"host":"example.org"}}`, key, firefox))
	return err
}

// forwardDescribed asks as a gateway does about the request of a browser.
func forwardDescribed(connection io.Writer, answers *bufio.Reader, key int) error {
	var request bytes.Buffer
	fmt.Fprintf(&request, "GET /v1/forward?policy=ip&refuse=403 HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 11.%d.%d.%d\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example\r\nX-Forwarded-Uri: /cart?a=b\r\n"+
		"X-Forwarded-Method: POST\r\nUser-Agent: %s\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nReferer: https://shop.example/\r\nCookie: theme=dark; session=x\r\n\r\n",
		key>>16, key>>8&255, key&255, firefox)
	if _, err := connection.Write(request.Bytes()); err != nil {
		return err
	}
	return answered(answers, "/v1/forward")
}

// answered reads an answer, and returns an error unless it is 2xx.
func answered(answers *bufio.Reader, path string) error {
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %d %s", path, response.StatusCode, text)
	}
	return err
}
