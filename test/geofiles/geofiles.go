// Package geofiles writes files of the MaxMind DB format as the vendors lay them out, for
// tests.
package geofiles

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"go4.org/netipx"
)

// Row is a network and its origin.
type Row struct {
	Network string
	Country string
	ASN     uint32
	Name    string // of the autonomous system
}

// Layout is how a vendor lays its records out.
type Layout string

// The layouts.
const (
	GeoLiteASN     Layout = "GeoLite2-ASN"
	GeoLiteCountry Layout = "GeoLite2-Country"
	DBIP           Layout = "DBIP-Location-ISP (compat=Enterprise)"
	IPinfo         Layout = "ipinfo ipinfo_lite.mmdb"
	// IPinfoASN has codes and names beside each other, as its older files.
	IPinfoASN Layout = "ipinfo country_asn.mmdb"
)

// Rows are those that most tests need.
var Rows = []Row{
	{"203.0.113.0/24", "NL", 64500, "EXAMPLE-NET Example Networks B.V."},
	{"198.51.100.0/25", "DE", 64501, "Beispiel GmbH"},
	{"198.51.100.128/25", "NL", 64501, "Beispiel GmbH"},
	{"2001:db8::/48", "NL", 64500, "EXAMPLE-NET Example Networks B.V."},
}

func record(l Layout, r Row) mmdbtype.DataType {
	country := mmdbtype.Map{"iso_code": mmdbtype.String(r.Country), "names": mmdbtype.Map{"en": mmdbtype.String("A country")}}
	switch l {
	case GeoLiteASN:
		return mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(r.ASN), "autonomous_system_organization": mmdbtype.String(r.Name)}
	case GeoLiteCountry:
		return mmdbtype.Map{"continent": mmdbtype.Map{"code": mmdbtype.String("EU")}, "country": country, "registered_country": country}
	case DBIP:
		return mmdbtype.Map{"country": country, "traits": mmdbtype.Map{
			"autonomous_system_number": mmdbtype.Uint32(r.ASN), "autonomous_system_organization": mmdbtype.String(r.Name)}}
	}
	asn := mmdbtype.String("AS" + decimal(r.ASN))
	m := mmdbtype.Map{"asn": asn, "as_name": mmdbtype.String(r.Name), "country": mmdbtype.String("A country"), "country_code": mmdbtype.String(r.Country)}
	if l == IPinfoASN {
		m["country"], m["country_name"] = mmdbtype.String(r.Country), mmdbtype.String("A country")
		delete(m, "country_code")
	}
	return m
}

func decimal(n uint32) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return decimal(n/10) + string(rune('0'+n%10))
}

// Bytes returns a file.
func Bytes(t testing.TB, l Layout, rows ...Row) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: string(l), RecordSize: 28, IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := tree.Insert(netipx.PrefixIPNet(netip.MustParsePrefix(r.Network)), record(l, r)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Write writes a file in place of another of its name, as update programs do.
func Write(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	part := filepath.Join(dir, name+".part")
	if err := os.WriteFile(part, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// Dir returns a directory with files of countries and of autonomous systems.
func Dir(t testing.TB, rows ...Row) string {
	t.Helper()
	dir := t.TempDir()
	Write(t, dir, "asn.mmdb", Bytes(t, GeoLiteASN, rows...))
	Write(t, dir, "country.mmdb", Bytes(t, GeoLiteCountry, rows...))
	return dir
}
