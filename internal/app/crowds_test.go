package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// A scanner behind a proxy that nobody named gets the address of the proxy blocked. Once its visitors show that
// many people share it, that block ends and none follows.
func TestBlocksOfAnAddressOfManyPeopleEnd(t *testing.T) {
	a := startApp(t)
	putSuspicion(t, a)
	const proxy, scanner = "ip:172.17.0.1", "ip:172.17.0.2"
	check := func(key, path, agent string) int {
		t.Helper()
		answer, _ := send(t, a.CheckAddr(), nil, http.MethodPost, "/v1/check", fmt.Sprintf(`{"key":%q,"request":{"path":%q,"method":"GET","agent":%q}}`, key, path, agent))
		return answer.StatusCode
	}
	browser := func(i int) string {
		return fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%[1]d.0", 100+i)
	}
	scan := func(key string) {
		for i := range 8 {
			check(key, fmt.Sprintf("/.git/config?%d", i), "nuclei")
		}
	}
	scan(proxy)
	scan(scanner)
	servers.Await(t, "both are blocked", func() bool { return blockOf(t, a, proxy) != nil && blockOf(t, a, scanner) != nil })
	for i := range 10 {
		check(proxy, "/", browser(i))
	}
	servers.Await(t, "the block of the proxy ends", func() bool { return blockOf(t, a, proxy) == nil })
	if status := check(proxy, "/", browser(1)); status != http.StatusOK {
		t.Errorf("a visitor behind the proxy is answered %d", status)
	}
	scan(proxy)
	if b := blockOf(t, a, proxy); b != nil {
		t.Errorf("the proxy is blocked again: %+v", b)
	}
	if blockOf(t, a, scanner) == nil {
		t.Error("the block of another internal address has ended")
	}
	_, body := send(t, a.AdminAddr(), bearer(edgeToken), http.MethodGet, "/v1/keys?key="+proxy, "")
	if !strings.Contains(body, "probably a proxy") {
		t.Errorf("the key does not say that it is shared: %s", body)
	}
}
