package keys

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Reading reads the patterns and keys that operators write: in forms, commands, files, requests
// and filters. It is the only reading of such text, so that every entrance understands the same.
//
// Addresses, networks, ranges such as "10.0.0.1-10.0.0.9", "AS64500", "RU" and lists of these
// separated by commas are read as what they are. Text that looks like one of them and is none is
// refused with what was probably meant. Parser reads what programs write.
type Reading struct {
	Parser Parser
	// Literal says that text that is neither an address nor a network is a key or pattern exactly
	// as written.
	Literal bool
	// IsKnown reports whether the keys of a pattern are of a kind that is in use. For the pattern
	// of a key without a kind it reports whether that key was seen. Nil knows only the kinds that
	// every installation has.
	IsKnown func(Pattern) bool
	// AnyKind accepts patterns that are not known, and refuses only what looks like an address.
	// It is for filters and policies: a kind may be named there before it is in use.
	AnyKind bool
}

// usualKinds are the kinds of keys and patterns that the front ends make themselves, and those
// of the documentation.
var usualKinds = []string{"ip", asnKind, countryKind, NetworkKind, "token", "user", "account", "session", "host", "path", "method", "header", "cookie", "envoy", "plan", "bot", "category", "pass", "agent", "ip+path"}

// IsUsualKind reports whether every installation has the kind.
func IsUsualKind(kind string) bool { return slices.Contains(usualKinds, kind) }

// maxRead bounds the patterns of one text.
const maxRead = 200

// asWritten ends the refusal of what may be meant literally.
const asWritten = "; if it is meant exactly as written, mark it as literal (literal, --literal on the command line)"

// Patterns returns the patterns that a text means, at least one and without repetition: several
// for a list, and for a range that is not one network. The error is an *Error and says what was
// probably meant.
func (r Reading) Patterns(text string) ([]Pattern, error) {
	if !r.Literal {
		text = strings.TrimSpace(text)
	}
	if err := checkText("pattern", text, maxReadLength); err != nil {
		return nil, err
	}
	parts := r.split(text)
	var all []Pattern
	for _, part := range parts {
		read, err := r.one(part, len(parts) > 1)
		if err != nil {
			return nil, err
		}
		for _, p := range read {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
		if len(all) > maxRead {
			return nil, refuse("pattern", text, "is more than %d networks; write it as larger networks, or import it as a file", maxRead)
		}
	}
	return all, nil
}

// maxReadLength is enough for a list of maxRead addresses.
const maxReadLength = maxRead * 64

// Pattern is Patterns for where one pattern is needed. Its error names them all if there are
// several.
func (r Reading) Pattern(text string) (Pattern, error) {
	all, err := r.Patterns(text)
	if err != nil {
		return Pattern{}, err
	}
	if len(all) > 1 {
		return Pattern{}, refuse("pattern", text, "is several networks, and one is needed here; write one of %s", Join(all, 10))
	}
	return all[0], nil
}

// Join lists patterns separated by commas, as Patterns reads them: at most a number of them, 0
// for all.
func Join(all []Pattern, most int) string {
	var texts []string
	for i, p := range all {
		if most > 0 && i == most {
			texts = append(texts, "and "+strconv.Itoa(len(all)-most)+" more")
			break
		}
		texts = append(texts, p.text)
	}
	return strings.Join(texts, ", ")
}

// Key returns the key that a text names. An address needs no kind. Text that is no key of a kind
// and looks like an address, a network or several of them is refused, as Patterns does, unless it
// is known: a check takes any text for a key.
func (r Reading) Key(text string) (Key, error) {
	text = strings.TrimSpace(text)
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return r.Parser.AddressKey(addr), nil
	}
	key, err := r.Parser.Key(text)
	if err != nil || r.Literal || strings.HasPrefix(text, "ip:") {
		return key, err
	}
	if problem := r.notOneKey(text); problem != "" && (r.IsKnown == nil || !r.IsKnown(exactPattern(text))) {
		return Key{}, refuse("key", text, "%s", problem)
	}
	return key, nil
}

// notOneKey says what is wrong with a text that looks like an address, a network or several of
// them, and is no key of a kind; "" for any other.
func (r Reading) notOneKey(text string) string {
	r.AnyKind = true // a customer's key need not be of a kind that is in use
	parts := r.split(text)
	read, err := r.addresses(parts[0])
	wrong, isWrong := errors.AsType[*Error](err)
	switch {
	case isWrong:
		return wrong.Problem
	case len(parts) > 1:
		return "is a list of addresses, and a key is one client; write for example ip:203.0.113.7"
	case read != nil && (len(read) > 1 || read[0].text != text):
		return "is read as " + Join(read, 3) + ", and a key is one client; write for example ip:203.0.113.7"
	}
	return ""
}

// split returns the parts of a list of addresses, or the whole text if it is none. A key of
// another kind may contain commas.
func (r Reading) split(text string) []string {
	first, _, found := strings.Cut(text, ",")
	if !found || r.Literal {
		return []string{text}
	}
	body, _ := strings.CutPrefix(strings.TrimSpace(first), "ip:")
	if read, err := r.origin(strings.TrimSpace(first)); read == nil && err == nil && r.looksNumeric(body) == "" {
		return []string{text}
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// one reads one part of a text.
func (r Reading) one(text string, isListed bool) ([]Pattern, error) {
	if read, err := r.addresses(text); read != nil || err != nil {
		return read, err
	}
	p, err := r.Parser.Pattern(text)
	if err != nil {
		return nil, err
	}
	if isListed && p.kind != Network && p.kind != FromOrigin {
		return nil, refuse("pattern", text, "%q is in a list of addresses and is none; write each of another kind on its own", clip(text))
	}
	return []Pattern{p}, r.checkKnown(p)
}

// addresses reads an address, a network, a range or an origin. It returns nil for what looks like
// none of them, and an error for what looks like one and is none.
func (r Reading) addresses(text string) ([]Pattern, error) {
	body, hasKind := strings.CutPrefix(strings.TrimSpace(text), "ip:")
	if read, err := r.network(text, strings.TrimSpace(body)); read != nil || err != nil {
		return read, err
	}
	if !r.Literal {
		if read, err := r.ranged(text, strings.TrimSpace(body)); read != nil || err != nil {
			return read, err
		}
		if read, err := r.origin(text); read != nil || err != nil {
			return read, err
		}
		if meant := r.meant(text, body, hasKind); meant != "" {
			if _, err := r.Parser.Pattern(text); err == nil && !r.AnyKind {
				meant += asWritten
			}
			return nil, refuse("pattern", text, "%s", meant)
		}
	}
	return nil, nil
}

// network reads an address or a network, with or without spaces around its slash. It returns nil
// for anything else.
func (r Reading) network(text, body string) ([]Pattern, error) {
	if head, bits, found := strings.Cut(body, "/"); found {
		body = strings.TrimSpace(head) + "/" + strings.TrimSpace(bits)
	}
	addr, errAddr := netip.ParseAddr(body)
	_, errNetwork := netip.ParsePrefix(body)
	switch {
	case errAddr == nil && addr.Zone() != "":
		return nil, refuse("pattern", text, "names an interface of one machine, %q; write ip:%s", clip("%"+addr.Zone()), addr.WithZone(""))
	case errAddr != nil && errNetwork != nil:
		return nil, nil //nolint:nilerr // it is neither, which is no mistake
	}
	given := text
	if given != "ip:"+body { // text that is canonical already shares its memory
		given = "ip:" + body
	}
	p, err := r.Parser.Pattern(given)
	if err != nil {
		return nil, err
	}
	return []Pattern{p}, nil
}

// ranged reads a range of addresses. It returns nil for anything else.
func (r Reading) ranged(text, body string) ([]Pattern, error) {
	low, high, found := strings.Cut(body, "-")
	if !found {
		return nil, nil
	}
	low, high = strings.TrimSpace(low), strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(high), "ip:"))
	first, err := netip.ParseAddr(low)
	if err != nil {
		return nil, nil //nolint:nilerr // it is no range
	}
	last, err := netip.ParseAddr(high)
	if err != nil {
		if _, ofLast := strconv.ParseUint(high, 10, 8); ofLast == nil && first.Is4() {
			bytes := first.As4()
			n, _ := strconv.Atoi(high)
			bytes[3] = byte(n)
			return nil, refuse("pattern", text, "is a range whose end is no address; write %s-%s", first, netip.AddrFrom4(bytes))
		}
		return nil, refuse("pattern", text, "is a range whose end is no address; write for example 192.0.2.0-192.0.2.255")
	}
	first, last = first.Unmap().WithZone(""), last.Unmap().WithZone("")
	switch {
	case first.BitLen() != last.BitLen():
		return nil, refuse("pattern", text, "is a range that mixes IPv4 and IPv6; write both ends of one family")
	case last.Less(first):
		return nil, refuse("pattern", text, "is a range that ends before it begins; write %s-%s", last, first)
	}
	var all []Pattern
	for {
		network := netip.PrefixFrom(first, first.BitLen())
		for network.Bits() > 0 {
			wider := netip.PrefixFrom(first, network.Bits()-1)
			if wider.Masked() != wider || last.Less(lastOf(wider)) {
				break
			}
			network = wider
		}
		all = append(all, NetworkPattern(network))
		end := lastOf(network)
		if end == last || len(all) > maxRead {
			return all, nil
		}
		first = end.Next()
	}
}

// lastOf returns the last address of a network.
func lastOf(network netip.Prefix) netip.Addr {
	bytes := network.Addr().AsSlice()
	for bit := network.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

var autonomousSystem = regexp.MustCompile(`^(?i:asn?) ?([0-9]+)$`)

// origin reads an autonomous system or a country that is written without its kind. It returns
// nil for anything else.
func (r Reading) origin(text string) ([]Pattern, error) {
	if found := autonomousSystem.FindStringSubmatch(text); found != nil {
		p, err := originPattern(text, asnKind, found[1])
		return []Pattern{p}, err
	}
	c, isCountry := ParseCountry(text)
	switch {
	case !isCountry:
		return nil, nil
	case c.String() == text:
		return []Pattern{countryPattern(c)}, nil
	}
	if r.AnyKind || r.IsKnown != nil && r.IsKnown(exactPattern(text)) {
		return nil, nil
	}
	return nil, refuse("pattern", text, "has no kind; write country:%s if the country is meant%s", c, asWritten)
}

var (
	numeric4    = regexp.MustCompile(`^[0-9]+(\.[0-9*]+)+\.?(/[0-9.]*)?$`)
	hardware    = regexp.MustCompile(`^(?i:[0-9a-f]{2}([:-])([0-9a-f]{2}[:-]){4}[0-9a-f]{2}|[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})$`)
	hostAndPort = regexp.MustCompile(`^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+):[0-9]{1,5}$`)
	hostName    = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.[A-Za-z][A-Za-z0-9-]+\.?$`)
	scheme      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://(\[[^]]*\]|[^/:?#]*)`)
)

// meant says what is wrong with a text that looks like an address or like a line of a log, and
// what was probably meant, "" if it looks like neither.
func (r Reading) meant(text, body string, hasKind bool) string {
	if !r.AnyKind && strings.Contains(text, "://") { // long lists are read here: a search costs less than an expression
		if found := scheme.FindStringSubmatch(text); found != nil {
			return meantURL(found[1])
		}
	}
	if (len(body) == 17 || len(body) == 14) && hardware.MatchString(body) {
		return "is the hardware address (MAC) of an interface; write the IP address of the client, for example ip:203.0.113.7"
	}
	if fields := strings.Fields(body); len(fields) > 1 && looksLikeAddress(fields[0]) {
		return "holds more than an address; write ip:" + fields[0] + ", and separate several addresses by commas"
	}
	if problem := r.looksNumeric(body); problem != "" {
		return problem
	}
	if hasKind || r.AnyKind {
		return "" // if anything is wrong, the parser says it
	}
	if found := hostAndPort.FindStringSubmatch(text); found != nil {
		return "is a host with a port; write the addresses of the clients that are meant, for example ip:203.0.113.7, or host:" + clip(found[1]) + " for checks of that kind"
	}
	kind, value, found := strings.Cut(text, ":")
	if !found {
		if hostName.MatchString(text) {
			return "is the name of a host; write the addresses of the clients that are meant, for example ip:203.0.113.7"
		}
		return ""
	}
	// A value that is an address, behind a kind that nobody uses: a line of a log, or of a file of
	// another program.
	value = strings.TrimSpace(value)
	if looksLikeAddress(value) && !r.knows(exactPattern(text)) {
		return "has an address behind " + strconv.Quote(clip(kind)+":") + "; write ip:" + value
	}
	return ""
}

// meantURL says what to write instead of a URL of a host.
func meantURL(host string) string {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "is a URL; write ip:" + addr.Unmap().WithZone("").String()
	}
	return "is a URL, and keys are addresses of clients or kind:value; write the addresses of the clients that are meant"
}

func looksLikeAddress(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(text)
	return err == nil
}

// looksNumeric says what is wrong with a text that looks like an address or network, or like
// several, and is none; "" for one that is right or does not look so.
func (r Reading) looksNumeric(body string) string {
	if withPort, err := netip.ParseAddrPort(body); err == nil {
		return "has a port; write ip:" + withPort.Addr().Unmap().WithZone("").String()
	}
	if inner, bracketed := strings.CutPrefix(body, "["); bracketed {
		inner, _, _ = strings.Cut(inner, "]")
		if addr, err := netip.ParseAddr(inner); err == nil {
			return "has brackets; write ip:" + addr.Unmap().WithZone("").String()
		}
	}
	head, bits, hasBits := strings.Cut(body, "/")
	head, bits = strings.TrimSpace(head), strings.TrimSpace(bits)
	addr, err := netip.ParseAddr(head)
	switch {
	case err == nil && !hasBits:
		return "is an address"
	case err == nil && looksLikeAddress(head+"/"+bits):
		return "is a network"
	case err == nil:
		return badLength(addr, bits)
	case numeric4.MatchString(strings.ReplaceAll(body, " ", "")) && !looksLikeAddress(body):
		return badIPv4(head, bits, hasBits)
	case isNearlyIPv6(head):
		kind, _, _ := strings.Cut(head, ":")
		if p := exactPattern(body); checkKind("pattern", body, kind) == nil && r.IsKnown != nil && r.IsKnown(p) {
			return ""
		}
		if strings.Contains(head, "*") {
			return "is not a network: a star would cut addresses between digits; " + meantNetwork(body)
		}
		if n := strings.Count(head, ":") + 1; n < 8 && !strings.Contains(head, "::") && isIPv6(head+"::") {
			return "looks like an IPv6 address and has " + strconv.Itoa(n) + " of its 8 groups; write ip:" + head + "::/" + strconv.Itoa(n*16) + " for the network that begins so"
		}
		return "looks like an IPv6 address and is none; write one such as ip:2001:db8::1 or ip:2001:db8::/48"
	}
	if low, _, isRange := strings.Cut(body, "-"); isRange && looksLikeAddress(strings.TrimSpace(low)) {
		return "is a range of addresses"
	}
	return ""
}

// badLength says what is wrong with the text behind the slash of an address.
func badLength(addr netip.Addr, bits string) string {
	addr = addr.WithZone("")
	if mask, err := netip.ParseAddr(bits); err == nil && addr.Is4() && mask.Is4() {
		ones := 0
		for _, b := range mask.As4() {
			for ; b&0x80 != 0; b <<= 1 {
				ones++
			}
		}
		if network := netip.PrefixFrom(addr, ones).Masked(); lastOf(netip.PrefixFrom(netip.IPv4Unspecified(), ones)) == inverse(mask) {
			return "has a mask of addresses; write ip:" + network.String()
		}
	}
	family, most, example := "IPv4", 32, 24
	if addr.Is6() {
		family, most, example = "IPv6", 128, 64
	}
	network, _ := addr.Prefix(example) // never longer than the address
	return "has a bad length behind its slash, and that of " + family + " is 0 to " + strconv.Itoa(most) + "; write ip:" + addr.String() +
		" for the one address, or a network such as ip:" + network.String()
}

func inverse(mask netip.Addr) netip.Addr {
	bytes := mask.As4()
	for i := range bytes {
		bytes[i] = ^bytes[i]
	}
	return netip.AddrFrom4(bytes)
}

func badIPv4(head, bits string, hasBits bool) string {
	if strings.Contains(head, "*") {
		return "is not a network: a star would cut addresses between digits; " + meantNetwork(head)
	}
	parts := strings.Split(strings.TrimSuffix(head, "."), ".")
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		switch {
		case err != nil || n > 255:
			return "looks like an IPv4 address and is none: " + clip(part) + " is above 255; write one such as ip:203.0.113.7"
		case len(part) > 1 && part[0] == '0':
			return "looks like an IPv4 address and is none: " + clip(part) + " begins with a zero; write it without leading zeros"
		}
	}
	if len(parts) < 4 {
		addr, err := netip.ParseAddr(strings.Join(parts, ".") + strings.Repeat(".0", 4-len(parts)))
		if length, errBits := strconv.Atoi(bits); err == nil && hasBits && errBits == nil && length <= 32 {
			return "looks like an IPv4 network and has " + strconv.Itoa(len(parts)) + " of its 4 numbers; write ip:" + netip.PrefixFrom(addr, length).Masked().String()
		}
		if err == nil {
			return "looks like an IPv4 address and has " + strconv.Itoa(len(parts)) + " of its 4 numbers; write ip:" + netip.PrefixFrom(addr, len(parts)*8).String() + " for the network that begins so"
		}
	}
	return "looks like an IPv4 address and is none; write one such as ip:203.0.113.7 or ip:203.0.113.0/24"
}

// isNearlyIPv6 reports whether a text has the form of an IPv6 address: two colons in a row behind
// a group, or three groups or more, of which the first is of hexadecimal digits.
func isNearlyIPv6(text string) bool {
	first, rest, found := strings.Cut(text, ":")
	if !found || len(first) > 4 || strings.Trim(first, "0123456789abcdefABCDEF") != "" {
		return false
	}
	return strings.HasPrefix(rest, ":") || strings.Contains(rest, ":") && strings.Trim(rest, "0123456789abcdefABCDEF:.*%") == "" || strings.Contains(rest, "::")
}

func isIPv6(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Is6()
}

// checkKnown refuses a pattern of keys that nobody uses, unless it is meant literally.
func (r Reading) checkKnown(p Pattern) error {
	if r.Literal || r.AnyKind || r.knows(p) {
		return nil
	}
	kind, _, found := strings.Cut(p.Literal(), ":")
	if !found {
		return refuse("pattern", p.text, "has no kind; write kind:value, for example ip:203.0.113.7 or token:abc%s", asWritten)
	}
	return refuse("pattern", p.text, "has the kind %q, which neither a policy nor a key of the last days has; usual kinds are ip, token and user%s", clip(kind), asWritten)
}

// knows reports whether the keys of a pattern are of a kind that is in use.
func (r Reading) knows(p Pattern) bool {
	if p.kind != Exact && p.kind != Prefix {
		return true
	}
	kind, _, found := strings.Cut(p.Literal(), ":")
	return found && IsUsualKind(kind) || r.IsKnown != nil && r.IsKnown(p)
}
