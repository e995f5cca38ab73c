package adminui_test

import (
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/test/geofiles"
)

// origins are read once: all nodes of the tests have the same files.
var origins struct {
	once sync.Once
	*geoip.Database
}

// someOrigins returns a database whose names are hostile texts, by which patterns select
// from now on.
func someOrigins(t testing.TB) *geoip.Database {
	t.Helper()
	origins.once.Do(func() {
		d, err := geoip.Open(geofiles.Dir(t,
			geofiles.Row{Network: "203.0.113.0/25", Country: "NL", ASN: 64500, Name: hostile[0]},
			geofiles.Row{Network: "203.0.113.128/25", Country: "DE", ASN: 64501, Name: hostile[4]},
		))
		must(t, err)
		origins.Database = d
		keys.LocateBy(d)
	})
	return origins.Database
}

func TestPagesShowOriginsOfKeys(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	v, o := n.as(t, "vic"), n.as(t, "olu")
	v.get("/key?key=ip:203.0.113.2").is(http.StatusOK).holds("From <b>NL</b>").holds("<b>AS64500</b>").holds("Offenders of asn:64500").lacks(hostile[0]).lacks("Block asn:64500")
	o.get("/key?key=ip:203.0.113.2").is(http.StatusOK).holds(`href="/blocks/new?literal=yes&amp;pattern=asn%3a64500"`)
	v.get("/key?key=token:abc").is(http.StatusOK).lacks("AS64500")
	v.get("/offenders").is(http.StatusOK).holds("NL, AS64500").holds("Origins").lacks(hostile[0])
	v.get("/offenders?pattern=country:NL").is(http.StatusOK).holds("203.0.113.2<").lacks("DE, AS64501")
	v.get("/offenders?pattern=country:DE").is(http.StatusOK).holds("DE, AS64501").lacks("203.0.113.2<")
	v.get("/offenders/origins").is(http.StatusOK).holds("asn:64500").lacks(hostile[0]).lacks("Block…")
	v.get("/offenders/origins?by=country").is(http.StatusOK).holds("country:NL").lacks("asn:64500")
	v.get("/offenders/origins?by=city").is(http.StatusUnprocessableEntity).holds("ust be one of asn, country")
	for text, want := range map[string]string{"country:nl": "/offenders?pattern=country%3ANL", "asn:AS64500": "/offenders?pattern=asn%3A64500"} {
		if at := v.get("/go?q=" + text).is(http.StatusSeeOther).header.Get("Location"); at != want {
			t.Errorf("searching %s redirects to %s, want %s", text, at, want)
		}
	}
	v.get("/settings").is(http.StatusOK).holds("asn.mmdb").holds("GeoLite2-ASN")

	preview := o.post("/blocks/new", url.Values{"pattern": {"asn:64500"}, "for": {"1h"}})
	preview.is(http.StatusOK).holds("128 IPv4 addresses in 1 range").holds("Bouncers are not sent this block")
	o.post("/blocks/new", url.Values{"pattern": {"country:NL"}, "for": {"1h"}}).is(http.StatusOK).holds("every address of the country NL")
}

func TestPagesWorkWithoutOrigins(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) { d.Origins = operations.Origins{} })
	n.attack(t)
	v := n.as(t, "vic")
	v.get("/key?key=ip:203.0.113.2").is(http.StatusOK).lacks("AS64500")
	v.get("/offenders").is(http.StatusOK).lacks("Origins").lacks("AS64500")
	v.get("/offenders/origins").is(http.StatusOK).holds("--geoip-dir")
	v.get("/settings").is(http.StatusOK).holds("Start the node with <code>--geoip-dir</code>")
}
