package blocklist_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/rowfile"
)

// published are files as others publish and print them, found by their content alone.
var published = []struct {
	name, column, text string
	want               []string
}{
	{"netset of FireHOL", "", "#\n# firehol_level2\n# Entries : 2\n192.0.2.7\n198.51.100.0/24\n", []string{"ip:192.0.2.7", "ip:198.51.100.0/24"}},
	{"JSON lines of Spamhaus DROP", "", `{"cidr":"192.0.2.0/24","sblid":"SBL1","rir":"arin"}` + "\n" + `{"cidr":"2001:db8::/32","sblid":"SBL2","rir":"ripencc"}` + "\n" +
		`{"type":"metadata","timestamp":1764374400,"size":200,"records":2,"copyright":"(c)","terms":"https://www.example"}` + "\n", []string{"ip:192.0.2.0/24 (SBL1)", "ip:2001:db8::/32 (SBL2)"}},
	{"JSON lines of Spamhaus that are cut", "", `{"cidr":"192.0.2.0/24","sblid":"SBL1","rir":"arin"}` + "\n" + `{"type":"metadata","records":1700}`, []string{"ip:192.0.2.0/24", "the list says that it has 1700 records, and 1 were read"}},
	{"JSON lines of Spamhaus ASN-DROP", "", `{"asn":64500,"rir":"apnic","domain":"example.net","cc":"AU","asname":"EXAMPLE-NET"}` + "\n", []string{"asn:64500 (EXAMPLE-NET)"}},
	{"JSON of AWS", "", `{"syncToken":"1","createDate":"2026-11-29-00-00-00","prefixes":[{"ip_prefix":"192.0.2.0/24","region":"eu-south-2","service":"AMAZON","network_border_group":"eu-south-2"}],` +
		`"ipv6_prefixes":[{"ipv6_prefix":"2001:db8::/40","region":"x","service":"S3"}]}`, []string{"ip:192.0.2.0/24 (AMAZON)", "ip:2001:db8::/40 (S3)"}},
	{"JSON of Google, Bing and OpenAI", "", `{"creationTime":"2026-11-29T00:00:00.000000","prefixes":[{"ipv6Prefix":"2001:db8:10::/64"},{"ipv4Prefix":"192.0.2.0/27"}]}`, []string{"ip:2001:db8:10::/64", "ip:192.0.2.0/27"}},
	{"JSON of Google's clouds", "", "{\n \"syncToken\": \"1\",\n \"prefixes\": [{\n  \"ipv4Prefix\": \"192.0.2.0/24\",\n  \"service\": \"Google Cloud\"\n }]\n}\n", []string{"ip:192.0.2.0/24 (Google Cloud)"}},
	{"JSON of Ahrefs", "", `{"ips":[{"ip_address":"192.0.2.7"},{"ip_address":"192.0.2.8"}]}`, []string{"ip:192.0.2.7", "ip:192.0.2.8"}},
	{"JSON of Azure", "", `{"changeNumber":1,"cloud":"Public","values":[{"name":"Action","id":"Action","properties":{"region":"","addressPrefixes":["192.0.2.0/28","2001:db8::/46"],"networkFeatures":["API"]}}]}`, []string{"ip:192.0.2.0/28", "ip:2001:db8::/46"}},
	{"JSON of Oracle", "", `{"last_updated_timestamp":"x","regions":[{"region":"r","cidrs":[{"cidr":"192.0.2.0/24","tags":["OCI"]}]}]}`, []string{"ip:192.0.2.0/24"}},
	{"JSON of Cloudflare", "", `{"result":{"ipv4_cidrs":["192.0.2.0/24"],"ipv6_cidrs":["2001:db8::/32"],"etag":"x"},"success":true,"errors":[],"messages":[]}`, []string{"ip:192.0.2.0/24", "ip:2001:db8::/32"}},
	{"JSON of Fastly", "", `{"addresses":["192.0.2.0/24"],"ipv6_addresses":["2001:db8::/32"]}`, []string{"ip:192.0.2.0/24", "ip:2001:db8::/32"}},
	{"JSON of AbuseIPDB", "", `{"meta":{"generatedAt":"2026-11-29T00:00:00+00:00"},"data":[{"ipAddress":"192.0.2.7","countryCode":"US","abuseConfidenceScore":100,"lastReportedAt":"2026-11-28T00:00:00+00:00"}]}`, []string{"ip:192.0.2.7"}},
	{"text of AbuseIPDB and of Tor's bulk list", "", "192.0.2.7\r\n192.0.2.8\r\n", []string{"ip:192.0.2.7", "ip:192.0.2.8"}},
	{"a list of texts", "", `["192.0.2.7", "198.51.100.0/24"]`, []string{"ip:192.0.2.7", "ip:198.51.100.0/24"}},
	{"JSON with a list of its own", "hooks", `{"verifiable_password_authentication":true,"ssh_keys":["ssh-ed25519 A"],"hooks":["192.0.2.0/24"],"web":["198.51.100.0/24"]}`, []string{"ip:192.0.2.0/24"}},
	{"JSON of cscli decisions list", "", `[{"capacity":0,"created_at":"2026-11-29T00:00:00Z","decisions":[{"duration":"3h59m12.5s","id":7,"origin":"cscli","scenario":"manual ban","scope":"Ip","simulated":false,"type":"ban","value":"192.0.2.7"},` +
		`{"duration":"1h0m0s","origin":"crowdsec","scope":"Range","type":"ban","value":"198.51.100.0/24","scenario":"x"},{"duration":"1h","scope":"AS","type":"ban","value":"64500","scenario":"x"},` +
		`{"duration":"1h","scope":"Ip","type":"captcha","value":"192.0.2.8"},{"duration":"-1h2m","scope":"Ip","type":"ban","value":"192.0.2.9"},{"duration":"1h","scope":"Ip","simulated":true,"type":"ban","value":"192.0.2.9"}],` +
		`"events":null,"source":{"ip":"203.0.113.1","scope":"Ip","value":"203.0.113.1"}},{"decisions":null}]`,
		[]string{"ip:192.0.2.7 (manual ban) 3h59m12s", "ip:198.51.100.0/24 (x) 1h0m0s", "asn:64500 (x) 1h0m0s", `its type is "captcha"`, "the decision has ended", "the decision is simulated"}},
	{"JSON of cscli allowlists inspect", "", `{"name":"office","description":"ours","items":[{"created_at":"2026-11-29T00:00:00Z","expiration":"0001-01-01T00:00:00.000Z","value":"192.0.2.0/24"}]}`, []string{"ip:192.0.2.0/24"}},
	{"raw CSV of cscli decisions list", "", "id,source,ip,reason,action,country,as,events_count,expiration,simulated,alert_id\n7,cscli,Ip:192.0.2.7,manual,ban,,,1,3h59m12s,false,4\n8,x,Range:198.51.100.0/24,y,ban,DE,64500 NET,2,10m1.25s,false,5\n9,x,Ip:192.0.2.8,y,ban,,,1,1h,true,5\n",
		[]string{"ip:192.0.2.7 (manual) 3h59m12s", "ip:198.51.100.0/24 (y) 10m1s", "the decision is simulated"}},
	{"CSV that cscli imports", "", "duration,scope,value,reason\n24h,ip,192.0.2.55,tor exit\n24h,range,198.51.100.0/24,spam\n", []string{"ip:192.0.2.55 (tor exit) 24h", "ip:198.51.100.0/24 (spam) 24h"}},
	{"fail2ban banip --with-time", "", "192.0.2.7 \t" + local(-time.Hour) + " + 7200 = " + local(time.Hour) + "\n192.0.2.8 \t" + local(0) + " + -1 = 9999-12-31 23:59:59\n192.0.2.9 \t" + local(-2*time.Hour) + " + 60 = " + local(-time.Hour) + "\n",
		[]string{"ip:192.0.2.7 (fail2ban) 1h0m0s", "ip:192.0.2.8 (imported) permanent", "it ended already"}},
	{"DShield", "", "# DShield.org Recommended Block List\n#\nStart\tEnd\tNetmask\tAttacks\tName\tCountry\temail\n192.0.2.0\t192.0.2.255\t24\t3217\tEXAMPLE\tNL\tabuse@example.net\n", []string{"ip:192.0.2.0/24 (EXAMPLE NL abuse@example.net)"}},
	{"ipset save", "", "create bad hash:net family inet hashsize 1024 maxelem 65536 timeout 0 comment\nadd bad 192.0.2.0/24 timeout 600 comment \"seen at night\"\nadd bad 198.51.100.7 timeout 0\nadd bad 198.51.100.8 nomatch\nadd bad 203.0.113.0-203.0.113.127\n",
		[]string{"ip:192.0.2.0/24 (seen at night) 10m0s", "ip:198.51.100.7 (imported) permanent", "it is an exception (nomatch)", "ip:203.0.113.0/25"}},
	{"Tor exit addresses", "", "ExitNode 0011BD2485AD45D984EC4159C88FC066E5E3300E\nPublished 2026-11-28 22:11:03\nLastStatus 2026-11-29 00:00:00\nExitAddress 192.0.2.7 2026-11-29 00:10:11\n", []string{"ip:192.0.2.7 (Tor exit)"}},
	{"nginx deny", "", "deny 192.0.2.7;\ndeny 198.51.100.0/24;\n", []string{"ip:192.0.2.7", "ip:198.51.100.0/24"}},
	{"Apache deny", "", "# ours\n<Location />\norder allow,deny\ndeny from 192.0.2.0/24 198.51.100.7\nDeny from 203.0.113\nallow from all\n</Location>\n<RequireAll>\nRequire not ip 203.0.113.7\n</RequireAll>\n",
		[]string{"ip:192.0.2.0/24", "ip:198.51.100.7", `Apache denies "203.0.113"`, "ip:203.0.113.7"}},
	{"hosts.deny", "", "ALL: 192.0.2.7\nALL: [2001:db8::7]\nsshd: 192.0.2.8\n", []string{"ip:192.0.2.7", "ip:2001:db8::/64", "an address behind"}},
	{"hosts", "", "# hosts\n0.0.0.0 evil.example\n127.0.0.1\tads.example\n192.0.2.7 scanner.example\n", []string{`it names the domain "evil.example"`, `it names the domain "ads.example"`, "ip:192.0.2.7 (scanner.example)"}},
	{"address and more columns", "", "192.0.2.7\t5\n192.0.2.8\t3\n192.0.2.9 192.0.2.10\n", []string{"ip:192.0.2.7 (5)", "ip:192.0.2.8 (3)", "the pattern"}},
	{"connections", "", "192.0.2.7 203.0.113.9 24\n192.0.2.0 192.0.3.255 24\n", []string{"the pattern", "the pattern"}},
	{"JSON of addresses in their networks", "", `{"data":[{"ip":"192.0.2.7","cidr":"192.0.2.0/24","asn":"64500"},{"cidr":"198.51.100.0/24","asn":64501}]}`, []string{"ip:192.0.2.7", "ip:198.51.100.0/24"}},
	{"ranges", "", "192.0.2.0-192.0.2.255\n198.51.100.0 - 198.51.100.127\n", []string{"ip:192.0.2.0/24", "ip:198.51.100.0/25"}},
	{"a geofeed", "", "# comment\n192.0.2.0/24,US,US-CA,San Francisco,94124\n2001:db8::/32,DE,,,\n", []string{"ip:192.0.2.0/24", "ip:2001:db8::/32"}},
	{"a table by the name of a column", "dst_ip", "# Feodo\n\n\"first_seen_utc\",\"dst_ip\",\"dst_port\"\n\"2026-11-01 00:00:00\",\"192.0.2.7\",\"443\"\n", []string{"ip:192.0.2.7"}},
	{"a table by the number of a column", "2", "a\t192.0.2.7\tx\nb\t192.0.2.8\ty\n", []string{"ip:192.0.2.7", "ip:192.0.2.8"}},
	{"a table by the number of a column, with a header", "2", "name;net;reason\na;192.0.2.0/24;spam\n", []string{"ip:192.0.2.0/24 (spam)"}},
	{"a table with a comment behind its rows", "dstip", "Firstseen,DstIP,DstPort\n2026-11-01 00:00:00,192.0.2.7,443\n# END (1 entries, 1 new)\n", []string{"ip:192.0.2.7"}},
	{"a table whose column is not named", "", "\"first_seen_utc\",\"dst_ip\",\"dst_port\"\n\"2026-11-01 00:00:00\",\"192.0.2.7\",\"443\"\n", []string{`choose it (--column dst_ip)`}},
	{"JSON whose members are not known", "", `{"hubs":["192.0.2.0/24"],"other":[]}`, []string{"none of its members is known to hold addresses"}},
	{"JSON with rows in a list of its own", "prefix", `{"Records":[{"Prefix":"192.0.2.0/24","City":"x"},{"Prefix":"2001:db8::/32"}],"names":["x"]}`, []string{"ip:192.0.2.0/24", "ip:2001:db8::/32"}},
	{"JSON without the member that is named", "hubs", `{"Records":[{"Prefix":"192.0.2.0/24"}]}`, []string{`no object of it has the member "hubs"`}},
	{"a table without the column", "ip", "a,b\n1,2\n", []string{`line 1: it has no column "ip"`}},
	{"a page of a site", "", "<!DOCTYPE html>\n<html>\n", []string{"the pattern", "the pattern"}},
}

func local(after time.Duration) string {
	return noon.Add(after).In(time.Local).Format("2006-01-02 15:04:05")
}

func TestPublishedFormsAreFoundByTheirContent(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range published {
		tried[c.name] = true
		for packed, text := range map[bool]string{false: c.text, true: pack(t, c.text)} {
			d := defaults
			d.Column = c.column
			got, err := read(text, blocklist.Auto, d)
			if err != nil {
				got = append(got, err.Error())
			}
			ok := len(got) == len(c.want)
			for i := range min(len(got), len(c.want)) {
				ok = ok && strings.Contains(got[i], c.want[i])
			}
			if !ok {
				t.Errorf("%s (packed %t): got %q, want %q", c.name, packed, got, c.want)
			}
		}
	}
	for _, name := range blocklist.Forms() {
		if !tried[name] {
			t.Errorf("the form %s has no file in the table", name)
		}
	}
}

func pack(t *testing.T, text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A document of any length is read object by object, and what its other lists hold is no row.
func TestLongDocumentsAreRead(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"other":[`)
	for i := range 50_000 {
		fmt.Fprintf(&b, `{"cidr":"10.0.%d.%d/32"},`, i/256%256, i%256)
	}
	b.WriteString(`{}],"prefixes":[`)
	for i := range 50_000 {
		fmt.Fprintf(&b, `{"ip_prefix":"1.%d.%d.0/24","service":"S"},`, i/256%256, i%256)
	}
	b.WriteString(`{"ip_prefix":"nonsense"}]}`)
	rows, err := read(b.String(), blocklist.JSON, defaults)
	if err != nil || len(rows) != 50_001 || !strings.HasPrefix(rows[0], "1 ip:1.0.0.0/24") || !strings.HasPrefix(rows[50_000], "line 1: ") {
		t.Errorf("got %d rows, %v", len(rows), err)
	}
	for text, want := range map[string]string{
		`{"prefixes":[{"ipv4Prefix":"192.0.2.0/24"}`: "in the middle of its JSON", `{"prefixes":[{"ipv4Prefix":"` + strings.Repeat("x", 3<<20): "longer than 1 MiB",
		"\x1f\x8b\x08rubbish": "gzip",
	} {
		_, err := read(text, blocklist.Auto, defaults)
		var file *rowfile.FileError
		if !errors.As(err, &file) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
