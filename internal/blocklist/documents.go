package blocklist

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/rowfile"
	"github.com/stint-dev/stint/internal/wire"
)

// documentLists are the members of the JSON of publishers and programs that hold their rows.
var documentLists = []string{
	"prefixes", "ipv6_prefixes", // AWS; Google, Bing, OpenAI and others
	"ips",                                     // Ahrefs
	"values", "properties", "addressPrefixes", // Azure
	"regions", "cidrs", // Oracle
	"result", "ipv4_cidrs", "ipv6_cidrs", // Cloudflare
	"addresses", "ipv6_addresses", // Fastly
	"data",      // AbuseIPDB
	"decisions", // cscli decisions list: alerts with their decisions
	"new",       // CrowdSec's stream of decisions
	"items",     // cscli allowlists inspect
}

// documentValues are the members of a row that hold its address, network or number of an
// autonomous system. Where a row has an address, the network and the system that it is in are none of
// its own.
var documentValues = []string{"ip_prefix", "ipv6_prefix", "ipv4Prefix", "ipv6Prefix", "ip_address", "ipAddress", "ip", "cidr", "asn"}

// documentReasons are the members of a row that say why it is there.
var documentReasons = []string{"sblid", "asname", "scenario", "description", "service", "name"}

// isDocument reports whether JSON that begins with head has rows of publishers and not those of
// people or of an export.
func isDocument(head []byte, column string) bool {
	if column != "" {
		return true
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(rowfile.WithoutMark(head)))
	if decoder.PeekKind() == '[' {
		if _, err := decoder.ReadToken(); err != nil {
			return false
		}
		if decoder.PeekKind() == '"' { // a list of addresses
			return true
		}
	}
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return false
	}
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return false
		}
		name, kind := token.String(), decoder.PeekKind()
		switch {
		case name == "pattern" || name == "value" || name == "duration":
			return false
		case slices.Contains(documentValues, name) || slices.Contains(documentLists, name) && (kind == '[' || kind == '{' || kind == 'n'):
			return true
		}
		if (kind == '[' || kind == '{') && !slices.Contains(columns, name) {
			return true // it may be longer than head
		}
		if err := decoder.SkipValue(); err != nil {
			return false
		}
	}
	return false
}

// readDocument reads the JSON of publishers and programs.
func readDocument(from io.Reader, d Defaults) iter.Seq2[Row, error] {
	count, isKnown, last := 0, false, 0
	document := rowfile.Document[[]Row]{
		IsList: func(name string) bool {
			is := d.Column != "" || slices.Contains(documentLists, name)
			isKnown = isKnown || is && (d.Column == "" || strings.EqualFold(name, d.Column))
			return is
		},
		IsText: func(list string) bool { return d.Column == "" || strings.EqualFold(list, d.Column) },
		Row: func(line int, m rowfile.Members) ([]Row, bool, error) {
			if m.Text("type") == "metadata" { // the last line of Spamhaus's lists
				if said := m.Text("records"); said != "" && said != strconv.Itoa(count) {
					return nil, false, &rowfile.FileError{Line: line, Problem: fmt.Sprintf("the list says that it has %s records, and %d were read: it is not complete", rowfile.Clip(said), count)}
				}
				return nil, false, nil
			}
			all := documentFields(m, d.Column)
			last = line
			if len(all) > 0 {
				count++
			}
			var rows []Row
			for _, f := range all {
				read, err := d.rows(line, f)
				if err != nil {
					return nil, true, err
				}
				rows = append(rows, read...)
			}
			return rows, len(all) > 0, nil
		},
	}
	return func(yield func(Row, error) bool) {
		for rows, err := range document.Read(from) {
			if !yieldRows(rows, err, yield) {
				return
			}
		}
		switch {
		case count > 0 || isKnown || last == 0:
		case d.Column != "":
			yield(Row{}, &rowfile.FileError{Line: last, Problem: fmt.Sprintf("no object of it has the member %s", rowfile.Clip(strconv.Quote(d.Column)))})
		default:
			yield(Row{}, &rowfile.FileError{Line: last, Problem: "none of its members is known to hold addresses; name the one that does (--column)"})
		}
	}
}

// documentFields returns the rows of an object, usually one.
func documentFields(m rowfile.Members, column string) (all []fields) {
	reason := ""
	for _, name := range documentReasons {
		reason = cmp.Or(reason, m.Text(name))
	}
	if column != "" {
		for name := range m {
			if text := m.Text(name); text != "" && (name == "" || strings.EqualFold(name, column)) {
				all = append(all, fields{pattern: text, reason: reason})
			}
		}
		return all
	}
	if text := m.Text(""); text != "" {
		return []fields{{pattern: text}}
	}
	if value := m.Text("value"); value != "" { // of CrowdSec
		f := fields{value: value, EntryTerms: wire.EntryTerms{Scope: m.Text("scope")}, duration: m.Text("duration"), decision: m.Text("type"), simulated: m.Text("simulated"), reason: reason}
		if end := m.Text("expiration"); !strings.HasPrefix(end, "0001-") {
			f.expiresAt = end
		}
		return []fields{f}
	}
	for _, name := range documentValues {
		text := m.Text(name)
		if text == "" || len(all) > 0 && (name == "asn" || name == "cidr") {
			continue // says more of the address, and is not blocked with it
		}
		if name == "asn" {
			text = "asn:" + strings.TrimPrefix(strings.ToUpper(text), "AS")
		}
		all = append(all, fields{pattern: text, reason: reason})
	}
	return all
}

// tableNames returns what the columns of a table are by its first line, and whether that is a row.
func tableNames(column string) func(cells []string) (names []string, isRow bool, err error) {
	return func(cells []string) (names []string, isRow bool, err error) {
		names = make([]string, len(cells))
		for i, cell := range cells {
			names[i] = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(cell, "#")))
		}
		at := -1
		switch number, err := strconv.Atoi(column); {
		case column == "":
		case err == nil:
			at = number - 1
		default:
			at = slices.Index(names, strings.ToLower(column))
		}
		switch {
		case column != "" && (at < 0 || at >= len(cells)):
			return nil, false, &rowfile.FileError{Line: 1, Problem: fmt.Sprintf("it has no column %q; the first line is %s", rowfile.Clip(column), rowfile.Clip(strings.Join(cells, ",")))}
		case column != "":
			isRow = isAddress(strings.TrimSpace(cells[at]))
			for i := range names {
				if isRow || !slices.Contains([]string{"reason", "expires_at", "expires_in"}, names[i]) {
					names[i] = rowfile.Ignored
				}
			}
			names[at] = "pattern"
			return names, isRow, nil
		case isAddress(strings.TrimSpace(cells[0])): // a table without a header, such as a geofeed
			for i := range names {
				names[i] = rowfile.Ignored
			}
			names[0] = "pattern"
			return names, true, nil
		case isRawDecisions(names):
			for i, name := range names {
				names[i] = cmp.Or(map[string]string{"ip": "value", "reason": "reason", "action": "type", "expiration": "duration", "simulated": "simulated"}[name], rowfile.Ignored)
			}
			return names, false, nil
		case !slices.ContainsFunc(names, isPatternColumn):
			if at := slices.IndexFunc(names, isAddressColumn); at >= 0 {
				problem := fmt.Sprintf("the header has the column %[1]q and no column pattern; if the addresses are in it, choose it (--column %[1]s)", rowfile.Clip(names[at]))
				return nil, false, &rowfile.FileError{Line: 1, Problem: problem}
			}
		}
		return cells, false, nil
	}
}

func isPatternColumn(name string) bool { return name == "pattern" || name == "value" }

// isAddressColumn reports whether tables of publishers have addresses or networks in a column with this
// name, in lower case. It is not taken without being asked for: a table may have several.
func isAddressColumn(name string) bool {
	return slices.Contains([]string{"ip", "ip_address", "ipaddress", "address", "dst_ip", "dstip", "src_ip", "srcip", "cidr", "network", "prefix"}, name)
}

// isRawDecisions reports whether columns are those of 'cscli decisions list -o raw'.
func isRawDecisions(names []string) bool {
	return slices.Contains(names, "ip") && slices.Contains(names, "action") && slices.Contains(names, "expiration")
}
