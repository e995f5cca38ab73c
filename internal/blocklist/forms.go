package blocklist

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/rowfile"
)

// lineForm is a form of the lines that other programs and publishers write. Lines of several forms
// may be in one list.
type lineForm struct {
	name string // what documents call it
	// read reads the words of a line, and reports whether the line has this form. A line without an
	// address, such as a heading, has none of the fields.
	read func(words []string) (f fields, problem string, is bool)
}

// lineForms are tried in this order. Lines of none of them are a pattern as people write it.
var lineForms = []lineForm{
	{"ipset save", ipsetLine},
	{"Tor exit addresses", torLine},
	{"nginx deny", denyLine},
	{"Apache deny", apacheLine},
	{"hosts.deny", tcpdLine},
	{"DShield", dshieldLine},
	{"fail2ban banip --with-time", fail2banLine},
	{"hosts", hostsLine},
	{"address and more columns", addressLine},
}

// Forms returns the names of the forms that lines of a plain list may have.
func Forms() (names []string) {
	for _, form := range lineForms {
		names = append(names, form.name)
	}
	return names
}

func ipsetLine(w []string) (f fields, problem string, is bool) {
	if len(w) >= 3 && w[0] == "create" && strings.Contains(w[2], ":") {
		return f, "", true
	}
	if len(w) < 3 || w[0] != "add" {
		return f, "", false
	}
	f.pattern = w[2]
	for i := 3; i < len(w); i++ {
		switch w[i] {
		case "nomatch":
			return fields{}, "it is an exception (nomatch) of its set; add it as an exemption", true
		case "timeout":
			if i+1 < len(w) && w[i+1] != "0" {
				f.expiresIn = w[i+1] + "s"
			}
			i++
		case "comment":
			f.reason = strings.Trim(strings.Join(w[i+1:], " "), `"`)
			i = len(w)
		}
	}
	return f, "", true
}

// torLine reads the lines of check.torproject.org/exit-addresses.
func torLine(w []string) (f fields, problem string, is bool) {
	switch w[0] {
	case "ExitNode", "Published", "LastStatus":
		return f, "", len(w) > 1
	case "ExitAddress":
		if len(w) > 1 {
			return fields{pattern: w[1], reason: "Tor exit"}, "", true
		}
	}
	return f, "", false
}

func denyLine(w []string) (f fields, problem string, is bool) {
	if len(w) == 2 && w[0] == "deny" && strings.HasSuffix(w[1], ";") && isAddress(w[1][:len(w[1])-1]) {
		return fields{pattern: w[1][:len(w[1])-1]}, "", true
	}
	return f, "", false
}

// apacheLine reads "deny from" and "Require not ip" of Apache, which take several addresses, and leaves
// what is around them.
func apacheLine(w []string) (f fields, problem string, is bool) {
	word := func(i int) string {
		if i >= len(w) {
			return ""
		}
		return strings.ToLower(w[i])
	}
	var addresses []string
	switch {
	case word(0) == "deny" && word(1) == "from":
		addresses = w[2:]
	case word(0) == "require" && word(1) == "not" && word(2) == "ip":
		addresses = w[3:]
	case word(0) == "order", word(0) == "allow" && word(1) == "from" && word(2) == "all", word(0) == "require" && word(1) == "all" && word(2) == "granted",
		isApacheSection(w):
		return f, "", true
	default:
		return f, "", false
	}
	for _, address := range addresses {
		if !isAddress(address) {
			return fields{}, "Apache denies " + rowfile.Clip(strconv.Quote(address)) + ", and a list blocks clients by their address; write whole addresses and networks", true
		}
	}
	return fields{pattern: strings.Join(addresses, ",")}, "", true
}

// isApacheSection reports whether a line begins or ends a section in which Apache denies addresses.
func isApacheSection(w []string) bool {
	name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(w[0], "<"), "/"), ">")
	return w[0][0] == '<' && strings.HasSuffix(w[len(w)-1], ">") &&
		slices.Contains([]string{"location", "directory", "files", "limit", "requireall", "requireany"}, strings.ToLower(name))
}

// tcpdLine reads "ALL: 192.0.2.7" of hosts.deny.
func tcpdLine(w []string) (f fields, problem string, is bool) {
	if len(w) == 2 && strings.EqualFold(w[0], "ALL:") && isAddress(strings.Trim(w[1], "[]")) {
		return fields{pattern: strings.Trim(w[1], "[]")}, "", true
	}
	return f, "", false
}

func dshieldLine(w []string) (f fields, problem string, is bool) {
	if w[0] == "Start" && len(w) > 2 && w[1] == "End" {
		return f, "", true
	}
	if len(w) < 3 || !isAddress(w[0]) || !isAddress(w[1]) {
		return f, "", false
	}
	// Other tables have two addresses too, such as those of a connection, which are no range.
	network, err := netip.ParsePrefix(w[0] + "/" + w[2])
	if err != nil || network.Masked() != network || !isLast(network, w[1]) {
		return f, "", false
	}
	return fields{pattern: network.String(), reason: strings.Join(w[min(4, len(w)):], " ")}, "", true
}

// isLast reports whether a text is the last address of a network.
func isLast(network netip.Prefix, text string) bool {
	last, err := netip.ParseAddr(text)
	return err == nil && network.Contains(last) && !network.Contains(last.Next())
}

// fail2banTime is how fail2ban prints the end of a ban, in the time zone of its machine.
const fail2banTime = "2006-01-02 15:04:05"

// fail2banLine reads "192.0.2.1  2026-11-29 03:00:00 + 600 = 2026-11-29 03:10:00". A ban for ever
// has -1 seconds.
func fail2banLine(w []string) (f fields, problem string, is bool) {
	if len(w) != 8 || w[3] != "+" || w[5] != "=" || !isAddress(w[0]) {
		return f, "", false
	}
	f.pattern = w[0]
	if strings.HasPrefix(w[4], "-") {
		return f, "", true
	}
	end, err := time.ParseInLocation(fail2banTime, w[6]+" "+w[7], time.Local)
	if err != nil {
		return fields{}, "the end of the ban is not a time such as " + fail2banTime, true
	}
	f.expiresAt, f.reason = end.UTC().Format(time.RFC3339), "fail2ban"
	return f, "", true
}

// hostsLine refuses lines of a hosts file that name domains: only clients can be blocked.
func hostsLine(w []string) (f fields, problem string, is bool) {
	addr, err := netip.ParseAddr(w[0])
	if err != nil || len(w) < 2 || !addr.IsUnspecified() && !addr.IsLoopback() {
		return f, "", false
	}
	return f, "it names the domain " + rowfile.Clip(strconv.Quote(w[1])) + ", as a hosts file does, and a list blocks clients by their address", true
}

// addressLine reads an address or network that other columns follow.
func addressLine(w []string) (f fields, problem string, is bool) {
	if len(w) < 2 || !isAddress(w[0]) {
		return f, "", false
	}
	for _, word := range w[1:] {
		if isAddress(word) || word == "-" || word == "/" || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "-") {
			return f, "", false // a range, or several addresses
		}
	}
	return fields{pattern: w[0], reason: strings.Join(w[1:], " ")}, "", true
}

// isAddress reports whether a text is an address or a network.
func isAddress(text string) bool {
	if text == "" || text[0] != ':' && strings.IndexByte("0123456789abcdefABCDEF", text[0]) < 0 {
		return false
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(text)
	return err == nil
}
