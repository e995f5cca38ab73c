package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// MaxAlso is the maximum number of further keys that a policy may count for one request.
const MaxAlso = 4

// Network is the kind of the keys that are derived from the address of a request.
const Network = keys.NetworkKind

// Derived is a key that a policy also counts for each request that it counts: the network
// of the address, as "net:203.0.113.0/24", or a value of the request, as "account:alice".
type Derived struct {
	// Name is Network, or the name of a value or of an attribute of the request, as account or
	// header:accept; or several of them, and ip for the address, with + between.
	Name string
	// Bits is the length of the network: 8 to 31 for IPv4, 32 to 63 for IPv6; 0 for a value.
	Bits int
	// Rules limit the derived key; empty for those of the policy.
	Rules Stack
	// Retention is how much of the logs of the derived keys must be kept for Rules that were
	// replaced recently; see Policy.Retention.
	Retention Retention
}

// ParseDerived parses "net:/24", "net:/48 100/h" or "account 10/h 50/d". The error says what
// would be right.
func ParseDerived(text string) (Derived, error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	d := Derived{Name: name}
	if bits, isNetwork := strings.CutPrefix(name, Network+":/"); isNetwork {
		length, err := strconv.Atoi(bits)
		if err != nil || length < 8 || length > 63 || strconv.Itoa(length) != bits {
			return d, refuseDerived(text, "names a network of a length outside 8 to 31, which are those of IPv4, and 32 to 63, which are those of IPv6")
		}
		d.Name, d.Bits = Network, length
	} else if !isDerivable(name) {
		return d, refuseDerived(text, "names no further key; write for example net:/24, net:/48, asn, header:accept-language, account for the value of that name, or ip+path, and behind it its rules if they differ")
	}
	stack, err := ParseStack(SplitRules(rest))
	if err != nil {
		return d, err
	}
	d.Rules = stack
	return d, nil
}

// isDerivable reports whether the value of that name, or the values of all names with + between, can
// make a key.
func isDerivable(name string) bool {
	parts := strings.Split(name, partsJoiner)
	if len(parts) > maxParts {
		return false
	}
	for i, part := range parts {
		_, err := conditions.ParseAttribute(part)
		isAlone := len(parts) == 1
		if isAlone && (part == ownAddressPart || part == Network) || slices.Contains(parts[:i], part) {
			return false
		}
		if err != nil && conditions.CheckValueName(part) != nil {
			return false
		}
	}
	_, err := (keys.Parser{}).Key(kindOf(name) + ":x")
	return err == nil
}

const (
	partsJoiner    = "+"
	maxParts       = 4
	ownAddressPart = "ip" // among several values
	// asKind is the kind of the keys of autonomous systems: those of kind asn cannot be, as a block of
	// one would select its addresses.
	asKind = "as"
)

// kindOf returns what the further keys of a name begin with.
func kindOf(name string) string {
	if name == conditions.ASN.String() {
		return asKind
	}
	return name
}

// ParseAlso parses a list of derived keys. The error says which one is wrong.
func ParseAlso(texts []string) (Also, error) {
	var all Also
	for _, text := range texts {
		d, err := ParseDerived(text)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func refuseDerived(text, problem string) error {
	return fmt.Errorf("the further key %q %s", clip(text), problem)
}

// Label returns the text without the rules: "net:/24" or "account".
func (d Derived) Label() string {
	if d.Name == Network {
		return Network + ":/" + strconv.Itoa(d.Bits)
	}
	return d.Name
}

// String returns the canonical form, which ParseDerived accepts.
func (d Derived) String() string {
	return strings.TrimSpace(d.Label() + " " + d.Rules.String())
}

// Also are the further keys of a policy.
type Also []Derived

// Strings returns the canonical form of each, nil for none.
func (a Also) Strings() []string {
	var texts []string
	for _, d := range a {
		texts = append(texts, d.String())
	}
	return texts
}

// maxDerivedValue is the longest value in bytes that a derived key contains literally. Of a
// longer value, or one that is not allowed in a key, the key contains a hash.
const maxDerivedValue = 128

// KeyOf returns the derived key of a request of k, for which the caller also passes values. It
// returns false if there is none: k is not an address of that family, or the value is missing.
func (d Derived) KeyOf(k keys.Key, r *conditions.Request, values map[string]string) (keys.Key, bool) {
	if d.Name == Network {
		network, isAddress := k.Network()
		if !isAddress || network.Addr().Is4() != (d.Bits < 32) || network.Bits() < d.Bits {
			return keys.Key{}, false
		}
		masked, err := network.Addr().Prefix(d.Bits)
		if err != nil {
			return keys.Key{}, false
		}
		derived, err := (keys.Parser{}).Key(Network + ":" + masked.String())
		return derived, err == nil
	}
	value := ""
	if parts := strings.Split(d.Name, partsJoiner); len(parts) > 1 {
		var all []string
		for _, part := range parts {
			one := partOfKey(part, k, r, values)
			if one == "" {
				return keys.Key{}, false
			}
			all = append(all, one)
		}
		value = keys.JoinValues(all)
	} else if value = partOfKey(d.Name, k, r, values); value == "" {
		return keys.Key{}, false
	}
	if len(value) <= maxDerivedValue {
		if derived, err := (keys.Parser{}).Key(kindOf(d.Name) + ":" + value); err == nil {
			return derived, true
		}
	}
	derived, err := (keys.Parser{}).Key(kindOf(d.Name) + ":#" + hashed(value))
	return derived, err == nil
}

// partOfKey returns the value with a name as a key contains it, "" if it was not said. Headers, cookies
// and parameters are hashed, as they may be secrets.
func partOfKey(name string, k keys.Key, r *conditions.Request, values map[string]string) string {
	if name == ownAddressPart {
		if _, isAddress := k.Network(); !isAddress {
			return ""
		}
		return strings.TrimPrefix(k.String(), "ip:")
	}
	value := valueOf(name, k, r, values)
	if value != "" && strings.Contains(name, ":") {
		return hashed(value)
	}
	return value
}

func hashed(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// Makes reports whether d can derive k from some request.
func (d Derived) Makes(k keys.Key) bool {
	if !strings.HasPrefix(k.String(), kindOf(d.Name)+":") {
		return false
	}
	if d.Name != Network {
		return true
	}
	network, err := netip.ParsePrefix(strings.TrimPrefix(k.String(), Network+":"))
	return err == nil && network.Bits() == d.Bits && network.Addr().Is4() == (d.Bits < 32)
}

// Logs returns how many logs a check asks because of the policy, in one call of the log, besides
// that of the key's own policy.
func (p *Policy) Logs() int {
	switch {
	case p.Mode != Enforce || p.IsTrap() || len(p.Rules) == 0:
		return 0
	case p.IsConditional():
		return 1 + len(p.Also)
	}
	return len(p.Also)
}

// partOf returns the part of p that limits its further key i: it has p's id, name and mode, the
// rules of that key, and no Also.
func partOf(p *Policy, i int) *Policy {
	part := *p
	part.Also, part.Escalation = nil, nil
	part.Derived = &p.Also[i]
	part.Part = i + 1
	part.ofRequest = p.DependsOnRequest()
	if len(part.Derived.Rules) > 0 {
		part.Rules = part.Derived.Rules
	}
	part.Retention = p.Retention.Cover(part.Rules).and(part.Derived.Retention)
	return &part
}

func (a Also) validate(p *Policy) error {
	if len(a) > MaxAlso {
		return &FieldError{"also", "names more than " + strconv.Itoa(MaxAlso) + " further keys"}
	}
	if len(a) > 0 && (len(p.Rules) == 0 || p.Rules.refusesAll()) {
		return &FieldError{"also", "needs rules that count: the policy has none, or a limit of 0"}
	}
	if len(a) > 0 && p.Options.CountRefused {
		return &FieldError{"also", "cannot be combined with options.count_refused: all keys of a request are decided together"}
	}
	seen := map[string]bool{}
	for _, d := range a {
		switch name := d.Rules.Distinct(); {
		case seen[d.Label()]:
			return &FieldError{"also", "names " + d.Label() + " a second time"}
		case d.Rules.refusesAll():
			return &FieldError{"also", "has a limit of 0 for " + d.Label() + ", which refuses everything"}
		case name != "" && p.Algorithm != algorithms.TimestampLog:
			return &FieldError{"algorithm", "must be " + algorithms.TimestampLog + " beside distinct rules, which always count exactly"}
		}
		seen[d.Label()] = true
	}
	return nil
}

// counts describes what the logs of the further keys hold under an algorithm. It includes only
// what, if changed, makes the logs useless.
func (a Also) counts(algorithm string) []string {
	found := algorithms.ByName(algorithm)
	isCounter := found != nil && found.Counter != nil
	var texts []string
	for _, d := range a {
		name := d.Rules.Distinct()
		if name == "" && !isCounter {
			continue
		}
		text := d.Label() + " " + name
		for _, r := range d.Rules {
			if isCounter {
				text += " " + FormatDuration(r.Window)
			}
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// Retain returns a with the retention that the further keys of an earlier version need, which was
// replaced that long ago.
func (a Also) Retain(old Also, age time.Duration) Also {
	kept := slices.Clone(a)
	for i := range kept {
		for _, d := range old {
			if d.Label() != kept[i].Label() {
				continue
			}
			if age < d.Rules.LongestWindow() {
				d.Retention = d.Retention.Cover(d.Rules)
			}
			kept[i].Retention = kept[i].Retention.and(d.Retention)
		}
	}
	return kept
}

// describeNames says in words what the key of these names is made of.
func describeNames(names []string) string {
	words := make([]string, len(names))
	for i, name := range names {
		switch a, err := conditions.ParseAttribute(name); {
		case name == ownAddressPart:
			words[i] = "its address"
		case name == conditions.ASN.String():
			words[i] = "the autonomous system of its address"
		case err == nil:
			words[i] = "its " + a.Words()
		default:
			words[i] = "the " + name + " that is said of it"
		}
	}
	if len(words) == 1 {
		return words[0]
	}
	return list(words) + " together"
}

// Describe says in a sentence which further keys a policy counts, "" for none.
func (a Also) Describe() string {
	if len(a) == 0 {
		return ""
	}
	parts := make([]string, len(a))
	for i, d := range a {
		switch {
		case d.Name == Network && d.Bits < 32:
			parts[i] = "the IPv4 /" + strconv.Itoa(d.Bits) + " of the address"
		case d.Name == Network:
			parts[i] = "the IPv6 /" + strconv.Itoa(d.Bits) + " of the address"
		default:
			parts[i] = describeNames(strings.Split(d.Name, partsJoiner))
		}
		if len(d.Rules) > 0 {
			parts[i] += " (" + strings.Join(d.Rules.Strings(), ", ") + ")"
		}
	}
	return "Each request also counts for " + list(parts) + ": it is allowed only if the limits of all allow it."
}
