package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/geofiles"
	"github.com/stint-dev/stint/test/servers"
)

// geoNode is a node with helpers for requests.
type geoNode struct {
	*App
	t *testing.T
}

func (n *geoNode) do(method, path, body string, status int) string {
	n.t.Helper()
	at := n.AdminAddr()
	if path == "/v1/check" {
		at = n.CheckAddr()
	}
	header := http.Header{}
	if at == n.AdminAddr() {
		header = bearer(edgeToken)
	}
	if method == http.MethodDelete {
		header.Set("If-Match", "*")
	}
	answer, text := send(n.t, at, header, method, path, body)
	if status != 0 && answer.StatusCode != status {
		n.t.Fatalf("%s %s: %d, want %d: %s", method, path, answer.StatusCode, status, text)
	}
	return text
}

func (n *geoNode) contains(text string, parts ...string) {
	n.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			n.t.Errorf("%q is not in %s", part, text)
		}
	}
}

// decisions checks keys and returns the decisions.
func (n *geoNode) decisions(keys ...string) (all string) {
	for _, key := range keys {
		answer := n.do("POST", "/v1/check", fmt.Sprintf(`{"key":%q}`, key), 0)
		_, rest, _ := strings.Cut(answer, `"decision":"`)
		decision, _, _ := strings.Cut(rest, `"`)
		all += decision + " "
	}
	return strings.TrimSpace(all)
}

func TestNodeUsesGeoIPFiles(t *testing.T) {
	dir := geofiles.Dir(t, geofiles.Rows...)
	var logs servers.Output
	n := &geoNode{startLogged(t, &logs, "--geoip-dir", dir, "--allowed-hosts", "*"), t}
	const first, second, third, stranger = "ip:203.0.113.9", "ip:198.51.100.9", "ip:198.51.100.200", "ip:192.0.2.1"

	preview := n.do("POST", "/v1/blocks/preview", `{"pattern":"asn:AS64501"}`, 200)
	n.contains(preview, `"pattern":"asn:64501"`, `"extent":{"ranges":2,"addresses":256,"ipv6_networks":0}`, "Bouncers are not sent this block", `"confirm":null`)
	n.contains(n.do("POST", "/v1/blocks/preview", `{"pattern":"country:nl"}`, 200), `"confirm":"country:NL"`, "every address of the country NL")
	n.contains(n.do("POST", "/v1/blocks/preview", `{"pattern":"asn:1"}`, 200), "have no address of asn:1")
	n.contains(n.do("POST", "/v1/blocks/preview", `{"pattern":"country:Holland"}`, 422), "its code of two letters")
	n.contains(n.do("POST", "/v1/blocks", `{"pattern":"country:NL","reason":"all of it"}`, 409), "confirm")
	n.contains(n.do("POST", "/v1/check", `{"key":"asn:64501"}`, 0), "which only patterns have")

	n.do("POST", "/v1/blocks", `{"pattern":"asn:64501","reason":"stuffing","expires_in":"1h"}`, 201)
	_, id, _ := strings.Cut(n.do("POST", "/v1/exemptions", `{"pattern":"country:NL","reason":"customers","expires_in":"1h","confirm":"country:NL"}`, 201), `"id":"`)
	if got := n.decisions(first, second, third, stranger); got != "allowed blocked allowed allowed" {
		t.Errorf("with a block and an exemption: got %s", got)
	}
	n.contains(n.do("GET", "/v1/keys?key="+second, "", 200), `"pattern":"asn:64501"`, `"origin":{"country":"DE","asn":64501,"network":"Beispiel GmbH"}`)
	n.contains(n.do("GET", "/v1/keys?key="+third, "", 200), `"pattern":"country:NL"`, "takes precedence")

	n.do("DELETE", "/v1/exemptions/"+id[:36], "", 200)
	n.do("PUT", "/v1/policies/abroad?confirm=abroad", `{"match":["country:NL"],"rules":["1/1m"]}`, 201)
	n.contains(n.do("GET", "/v1/keys?key="+first, "", 200), `"name":"abroad"`)
	n.decisions(first, first, second, second)
	servers.Await(t, "the offender is listed", func() bool { return strings.Contains(n.do("GET", "/v1/offenders?pattern=asn:64501", "", 200), second) })
	servers.Await(t, "the offender is listed", func() bool { return strings.Contains(n.do("GET", "/v1/offenders?pattern=country:NL", "", 200), first) })
	n.contains(n.do("GET", "/v1/offenders?pattern=country:NL", "", 200), `"keys":1`, `"origin":{"country":"NL","asn":64500,`)
	n.contains(n.do("GET", "/v1/offenders/origins?by=asn", "", 200), `{"pattern":"asn:64501","name":"Beispiel GmbH","keys":1,`, `"blocked":true`, `"total":2`)
	n.contains(n.do("GET", "/v1/offenders/origins?by=country", "", 200), `"pattern":"country:DE"`)
	n.contains(n.do("GET", "/v1/offenders/export?format=csv", "", 200), "DE,64501,Beispiel GmbH,")
	n.contains(n.do("POST", "/v1/blocks/preview", `{"pattern":"asn:64501"}`, 200), `"counted":{"keys":2,"offenders":1,`)

	geofiles.Write(t, dir, "asn.mmdb", []byte("half a file"))
	n.geo.Follow(t.Context())
	n.geo.Follow(t.Context())
	if got := strings.Count(logs.String(), "the earlier ones stay in effect"); got != 1 || n.decisions(second) != "blocked" {
		t.Errorf("with a corrupt file: got %d log lines and %s, want 1 and blocked", got, n.decisions(second))
	}
	n.contains(n.do("GET", "/readyz", "", 200), `"name":"geoip","ok":false`)
	geofiles.Write(t, dir, "asn.mmdb", geofiles.Bytes(t, geofiles.GeoLiteASN, geofiles.Row{Network: "192.0.2.0/24", ASN: 64501, Name: "Moved"}))
	n.geo.Reload(t.Context())
	if got := n.decisions(second, stranger); got != "allowed blocked" || !strings.Contains(logs.String(), "new GeoIP files are in effect") {
		t.Errorf("with new files: got %s, want allowed blocked", got)
	}
}

func TestNodeWithoutGeoIPFilesWarnsOfOriginPatterns(t *testing.T) {
	var logs servers.Output
	n := &geoNode{startLogged(t, &logs), t}
	n.geo.Follow(t.Context())
	if strings.Contains(n.do("GET", "/readyz", "", 200), "geoip") {
		t.Error("/readyz has the part geoip on a node that needs no GeoIP files")
	}
	n.contains(n.do("POST", "/v1/blocks", `{"pattern":"asn:64501","reason":"stuffing","expires_in":"1h"}`, 409), "its size is not known")
	n.contains(n.do("POST", "/v1/blocks", `{"pattern":"asn:64501","reason":"stuffing","expires_in":"1h","confirm":"asn:64501"}`, 201), "until --geoip-dir names one")
	if got := n.decisions("ip:198.51.100.9"); got != "allowed" {
		t.Errorf("without files: got %s, want allowed", got)
	}
	n.geo.Follow(t.Context())
	n.contains(n.do("GET", "/readyz", "", 200), `"name":"geoip","ok":false`, "no --geoip-dir", `"ready":true`)
	if !strings.Contains(logs.String(), "patterns of asn: or country: are active, but this node has no --geoip-dir") {
		t.Errorf("the log does not warn of patterns without --geoip-dir: %s", logs.String())
	}
	if strings.Contains(n.do("GET", "/v1/keys?key=ip:198.51.100.9", "", 200), "origin") {
		t.Error("a key has an origin without GeoIP files")
	}
}

// A file that a program for updates removes leaves blocks that refuse nobody, which people must learn.
func TestNodeWarnsOfOriginPatternsThatItsFilesDoNotKnow(t *testing.T) {
	dir := geofiles.Dir(t, geofiles.Rows...)
	var logs servers.Output
	n := &geoNode{startLogged(t, &logs, "--geoip-dir", dir), t}
	n.do("POST", "/v1/blocks", `{"pattern":"asn:64501","scope":"login","reason":"stuffing","expires_in":"1h"}`, 201)
	n.geo.Follow(t.Context())
	n.contains(n.do("GET", "/readyz", "", 200), `"name":"geoip","ok":true`)
	n.contains(n.do("GET", "/metrics", "", 200), "\nstint_geoip_incomplete 0\n")
	if err := os.Remove(filepath.Join(dir, "asn.mmdb")); err != nil {
		t.Fatal(err)
	}
	n.geo.Follow(t.Context())
	if got := n.decisions("ip:198.51.100.9"); got != "allowed" {
		t.Errorf("without the file: got %s, want allowed", got)
	}
	n.contains(n.do("GET", "/readyz", "", 200), `"name":"geoip","ok":false`, "know no autonomous systems", `"ready":true`)
	n.contains(n.do("GET", "/metrics", "", 200), "\nstint_geoip_incomplete 1\n")
	if !strings.Contains(logs.String(), "know no autonomous systems, so that those of asn: match no address") {
		t.Errorf("the log does not warn: %s", logs.String())
	}
	geofiles.Write(t, dir, "asn.mmdb", geofiles.Bytes(t, geofiles.GeoLiteASN, geofiles.Rows...))
	if err := os.Remove(filepath.Join(dir, "country.mmdb")); err != nil {
		t.Fatal(err)
	}
	n.geo.Follow(t.Context())
	n.contains(n.do("GET", "/readyz", "", 200), `"name":"geoip","ok":true`)
	n.do("POST", "/v1/blocks", `{"pattern":"country:NL","reason":"stuffing","expires_in":"1h","confirm":"country:NL"}`, 201)
	n.contains(n.do("GET", "/readyz", "", 200), `"name":"geoip","ok":false`, "know no countries")
}

func TestStartRejectsUnusableGeoIPFiles(t *testing.T) {
	dir := t.TempDir()
	geofiles.Write(t, dir, "asn.mmdb", []byte("<html>"))
	s, err := Load([]string{"--geoip-dir", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = New(context.Background(), s, io.Discard, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "--geoip-dir: "+dir+"/asn.mmdb is not a MaxMind DB file") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}
