package geoip_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/oschwald/maxminddb-golang/v2"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/test/geofiles"
)

func open(t testing.TB, dir string) *geoip.Database {
	t.Helper()
	d, err := geoip.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLayoutsOfAllVendorsAreSupported(t *testing.T) {
	for _, layout := range []geofiles.Layout{geofiles.DBIP, geofiles.IPinfo, geofiles.IPinfoASN, ""} {
		dir := geofiles.Dir(t, geofiles.Rows...)
		if layout != "" {
			dir = t.TempDir()
			geofiles.Write(t, dir, "one.mmdb", geofiles.Bytes(t, layout, geofiles.Rows...))
		}
		d := open(t, dir)
		for _, row := range geofiles.Rows {
			o := d.Locate(netip.MustParsePrefix(row.Network).Addr().Next())
			if o.ASN != row.ASN || o.Country.String() != row.Country || d.NameOf(o.ASN) != row.Name {
				t.Errorf("%q, %s: got AS%d %q in %q", layout, row.Network, o.ASN, d.NameOf(o.ASN), o.Country)
			}
		}
		if o := d.Locate(netip.MustParseAddr("192.0.2.1")); o != (keys.Origin{}) {
			t.Errorf("%q: got %v for an address of no network", layout, o)
		}
		if e, known := d.Extent(keys.Origin{ASN: 64501}); !known || e.Addresses != 256 || e.Ranges < 1 {
			t.Errorf("%q: AS64501 has %+v", layout, e)
		}
		if e, known := d.Extent(keys.Origin{ASN: 64500}); !known || e.Addresses != 256 || e.Networks6 != 1.0/65536 {
			t.Errorf("%q: AS64500 has %+v", layout, e)
		}
		if e, known := d.Extent(keys.Origin{Country: keys.Country{'X', 'X'}}); !known || e.Ranges != 0 {
			t.Errorf("%q: a country without addresses has %+v, %t", layout, e, known)
		}
		nl := keys.Origin{Country: keys.Country{'N', 'L'}}
		if !d.Overlaps(nl, netip.MustParsePrefix("198.51.100.0/24")) || d.Overlaps(nl, netip.MustParsePrefix("198.51.100.0/25")) {
			t.Errorf("%q: Overlaps of NL is wrong for one of its two networks", layout)
		}
	}
}

func TestUnusableFilesAreRejectedByName(t *testing.T) {
	whole := geofiles.Bytes(t, geofiles.IPinfo, geofiles.Rows...)
	for name, data := range map[string][]byte{
		"is not a MaxMind DB file": []byte("<html>Too many downloads</html>"),
		"truncated.mmdb is":        whole[:len(whole)/3],
		"has neither countries":    geofiles.Bytes(t, geofiles.GeoLiteASN, geofiles.Row{Network: "192.0.2.0/24"}),
	} {
		dir := t.TempDir()
		geofiles.Write(t, dir, "truncated.mmdb", data)
		if _, err := geoip.Open(dir); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want an error of one line with %q, got %v", name, err)
		}
	}
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.mmdb"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := geoip.Open(dir); err == nil || err.Error() != filepath.Join(dir, "pipe.mmdb")+" is not a regular file" {
		t.Errorf("Open of a pipe: got %v", err)
	}
	if _, err := geoip.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no file whose name ends in .mmdb") {
		t.Errorf("Open of an empty directory: got %v", err)
	}
	if _, err := geoip.Open("/nowhere/at/all"); err == nil || !strings.Contains(err.Error(), "/nowhere/at/all cannot be read: no such file") {
		t.Errorf("Open of a missing directory: got %v", err)
	}
	if d, err := geoip.Open(""); d != nil || err != nil || d.Locate(netip.MustParseAddr("203.0.113.1")) != (keys.Origin{}) {
		t.Errorf("Open without a directory: got %v, %v; want nil", d, err)
	}
}

// TestTreeWithTooManyNetworksIsRejected reads a small file that has 2^64 networks.
func TestTreeWithTooManyNetworksIsRejected(t *testing.T) {
	whole := geofiles.Bytes(t, geofiles.IPinfo, geofiles.Rows...)
	reader, err := maxminddb.OpenBytes(slices.Clone(whole))
	if err != nil {
		t.Fatal(err)
	}
	size := int(reader.Metadata.RecordSize) / 4 // of a node, in bytes
	record := func(data []byte, node int) []byte { return data[node*size:][:size] }
	withData := record(whole, int(reader.Metadata.NodeCount)-1)
	for name, last := range map[string][]byte{"with data": withData, "without data": nil} {
		data := slices.Clone(whole)
		for node := range 64 {
			r := record(data, node)
			clear(r)
			r[2], r[size-1] = byte(node+1), byte(node+1)
		}
		if last == nil {
			last = make([]byte, size)
			last[1], last[2] = byte(reader.Metadata.NodeCount>>8), byte(reader.Metadata.NodeCount)
			last[size-2], last[size-1] = last[1], last[2]
		}
		copy(record(data, 64), last)
		dir := t.TempDir()
		geofiles.Write(t, dir, "loop.mmdb", data)
		if _, err := geoip.Open(dir); err == nil || !strings.Contains(err.Error(), "loop.mmdb is corrupt: its tree has far more networks than nodes") {
			t.Errorf("Open of a tree %s: got %v", name, err)
		}
	}
}

func TestReloadReadsChangedFilesAndIgnoresCorruptOnes(t *testing.T) {
	dir := geofiles.Dir(t, geofiles.Rows...)
	d := open(t, dir)
	if changed, err := d.Reload(); changed || err != nil {
		t.Fatalf("the same files: %t, %v", changed, err)
	}
	address := netip.MustParseAddr("203.0.113.9")
	geofiles.Write(t, dir, "country.mmdb", geofiles.Bytes(t, geofiles.GeoLiteCountry, geofiles.Row{Network: "203.0.113.0/24", Country: "BE"}))
	if changed, err := d.Reload(); !changed || err != nil || d.Locate(address).Country.String() != "BE" {
		t.Fatalf("a new file: %t, %v, %v", changed, err, d.Locate(address))
	}
	geofiles.Write(t, dir, "asn.mmdb", []byte("half"))
	changed, corrupt := d.Reload()
	if changed || corrupt == nil || d.Locate(address).ASN != 64500 {
		t.Fatalf("a corrupt file: %t, %v, %v", changed, corrupt, d.Locate(address))
	}
	if _, again := d.Reload(); !errors.Is(again, corrupt) { // another error of the same text is another read
		t.Errorf("a corrupt file that has not changed is read again: %v", again)
	}
	if err := os.Remove(filepath.Join(dir, "asn.mmdb")); err != nil {
		t.Fatal(err)
	}
	if changed, err := d.Reload(); !changed || err != nil || d.Locate(address).ASN != 0 {
		t.Fatalf("a removed file: %t, %v, %v", changed, err, d.Locate(address))
	}
}

func TestOriginPatternsSelectAddresses(t *testing.T) {
	d := open(t, geofiles.Dir(t, geofiles.Rows...))
	defer keys.LocateBy(d)()
	var parser keys.Parser
	pattern := func(text string) keys.Pattern {
		p, err := parser.Pattern(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	key := func(text string) keys.Key {
		k, err := parser.Key(text)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	index := keys.NewIndex[string]()
	for _, text := range []string{"asn:64500", "country:NL", "ip:203.0.113.0/28", "ip:*", "*"} {
		index.Set(pattern(text), text)
	}
	for text, want := range map[string]string{
		"ip:203.0.113.9": "ip:203.0.113.0/28 asn:64500 country:NL ip:* *", "ip:2001:db8::1": "asn:64500 country:NL ip:* *",
		"ip:198.51.100.200": "country:NL ip:* *", "ip:198.51.100.1": "ip:* *", "token:NL": "*",
	} {
		var got []string
		for p, v := range index.Matching(key(text)) {
			if got = append(got, v); p.String() != v || !p.Matches(key(text)) {
				t.Errorf("%s does not match %s", p, text)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is selected by %q, want %s", text, got, want)
		}
	}
	if index.Len() != 5 || index.Origins() != (keys.OriginCount{ASNs: 1, Countries: 1}) || !index.Delete(pattern("asn:AS64500")) || index.Origins() != (keys.OriginCount{Countries: 1}) {
		t.Error("Len, Origins or Delete of the index is wrong")
	}
	for text, want := range map[string]bool{"ip:203.0.113.9": true, "ip:203.0.113.0/24": false, "ip:*": false, "asn:64500": true, "country:NL": false} {
		if got := pattern("asn:64500").Covers(pattern(text)); got != want {
			t.Errorf("asn:64500 covers %s: %t", text, got)
		}
	}
	for text, want := range map[string]bool{"ip:203.0.0.0/16": true, "ip:192.0.2.0/24": false, "country:NL": true, "asn:64501": false, "token:*": false, "ip:*": true} {
		if got := keys.Overlap(pattern(text), pattern("asn:64500")); got != want {
			t.Errorf("asn:64500 overlaps %s: %t", text, got)
		}
	}
}

// BenchmarkLocate measures the additional cost of a check if a pattern of an origin is active.
func BenchmarkLocate(b *testing.B) {
	var rows []geofiles.Row
	for i := range 20_000 {
		network := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + i>>12), byte(i >> 4), byte(i << 4), 0}), 22)
		rows = append(rows, geofiles.Row{Network: network.String(), Country: string([]byte{'A' + byte(i%26), 'A' + byte(i/26%26)}), ASN: uint32(64500 + i), Name: "A network"})
	}
	d := open(b, geofiles.Dir(b, rows...))
	defer keys.LocateBy(d)()
	index := keys.NewIndex[int]()
	var parser keys.Parser
	p, _ := parser.Pattern("asn:64500")
	index.Set(p, 1)
	var all []keys.Key
	for i := range 1024 {
		all = append(all, parser.AddressKey(netip.AddrFrom4([4]byte{byte(20 + i%5), byte(i), byte(i * 7), 9})))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		index.Best(all[i%len(all)])
	}
}

func TestNetworksOfAnOriginAreListedUpToABound(t *testing.T) {
	d := open(t, geofiles.Dir(t, append(geofiles.Rows, geofiles.Row{Network: "203.0.114.0/23", Country: "NL", ASN: 64500})...))
	all, isAll := d.Networks(keys.Origin{ASN: 64500}, 3)
	if text := fmt.Sprint(all); !isAll || text != "[203.0.113.0/24 203.0.114.0/23 2001:db8::/48]" {
		t.Errorf("got %s, %t", text, isAll)
	}
	if all, isAll := d.Networks(keys.Origin{ASN: 64500}, 2); isAll || all != nil {
		t.Errorf("Networks with a smaller limit: got %v, %t; want none", all, isAll)
	}
}

// The origin of each address around the ends of networks is that of the single files, however
// their networks overlap.
func TestLocateMergesFilesByAddress(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		type file map[netip.Prefix]geofiles.Row
		var files []file
		for _, layout := range []geofiles.Layout{geofiles.GeoLiteASN, geofiles.GeoLiteCountry, geofiles.IPinfo} {
			f := file{}
			var rows []geofiles.Row
			for range rapid.IntRange(0, 6).Draw(r, "networks") {
				addr := netip.AddrFrom4([4]byte{20, 0, 0, rapid.Byte().Draw(r, "address")})
				network := netip.PrefixFrom(addr, rapid.IntRange(25, 32).Draw(r, "bits")).Masked()
				row := geofiles.Row{Network: network.String(), Country: rapid.SampledFrom([]string{"NL", "DE"}).Draw(r, "country"), ASN: rapid.Uint32Range(1, 3).Draw(r, "ASN")}
				if layout == geofiles.GeoLiteASN {
					row.Country = ""
				} else if layout == geofiles.GeoLiteCountry {
					row.ASN = 0
				}
				rows = append(rows, row)
			}
			slices.SortStableFunc(rows, func(a, b geofiles.Row) int {
				return netip.MustParsePrefix(a.Network).Bits() - netip.MustParsePrefix(b.Network).Bits()
			})
			for _, row := range rows {
				f[netip.MustParsePrefix(row.Network)] = row
			}
			if len(rows) > 0 {
				geofiles.Write(t, dir, fmt.Sprintf("%d.mmdb", len(files)), geofiles.Bytes(t, layout, rows...))
				files = append(files, f)
			}
		}
		if len(files) == 0 {
			return
		}
		d := open(t, dir)
		for i := range 256 {
			addr := netip.AddrFrom4([4]byte{20, 0, 0, byte(i)})
			var want keys.Origin
			for _, f := range files {
				for bits := 32; bits >= 25; bits-- {
					around, _ := addr.Prefix(bits)
					if row, is := f[around]; is {
						country, _ := keys.ParseCountry(row.Country)
						if want.ASN == 0 {
							want.ASN = row.ASN
						}
						if want.Country == (keys.Country{}) {
							want.Country = country
						}
						break
					}
				}
			}
			if got := d.Locate(addr); got != want {
				r.Fatalf("%s: got %v, want %v", addr, got, want)
			}
		}
	})
}
