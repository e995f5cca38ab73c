// Package breakdown contains the types and rules for what is requested: the dimensions by which
// checks are counted, tables of the heaviest combinations of their values that stay bounded and can
// be merged, and queries over them. It reads no clock and no store.
package breakdown

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// Seen is what is known of a check or a report when it is counted.
type Seen struct {
	Request *conditions.Request // nil for no description
	Policy  int64               // the policy that decided, 0 for none
	// RefusedBy is the rule that refused, BlockRefused, or "" if nothing refused.
	RefusedBy string
	Outcome   string // that was reported, "" for a check

	client    keys.Key
	isOfOne   bool // its values depend on the client
	origin    keys.Origin
	isLocated bool
}

// BlockRefused is Seen.RefusedBy of what a block refused.
const BlockRefused = "block"

// Of returns s for a client: its address, or else the key of the check.
func (s Seen) Of(client keys.Key) Seen {
	s.client = client
	return s
}

// Client returns the address of the client, or else the key of the check.
func (s *Seen) Client() keys.Key {
	s.isOfOne = true
	return s.client
}

// IsOfOne reports whether what was found so far may be different for another client.
func (s *Seen) IsOfOne() bool { return s.isOfOne }

// Origin returns where the client's address is from, zero if that is not known.
func (s *Seen) Origin() keys.Origin {
	if !s.isLocated && keys.KnowsOrigins() {
		s.origin = keys.OriginOf(s.Client())
	}
	s.isLocated = true
	return s.origin
}

// Dimension is one of the things by which requests are counted.
type Dimension struct {
	Name  string // in the API
	Label string // on the pages
	// Find returns the value of a request, "" if it is not known.
	Find func(*Seen) string
	// Fold returns what is counted of a value that Find found, nil for the value itself. It must
	// map different values that mean the same to one.
	Fold func(string) string
	// None is what a request without a value is on the pages, "" for "not known".
	None string
	// Spell returns the value of a filter as it is counted, nil if it is so already.
	Spell func(string) string
	// Condition is the part of a request by which a policy selects the values, nil for none.
	Condition *conditions.Attribute
}

// Dimensions are all dimensions. A further one is one more line here, and nothing else: what is
// stored names its dimensions, and the API, the command and the page take them from here.
var Dimensions = [...]Dimension{
	{"path", "Path", func(s *Seen) string { return s.Request.Value(conditions.Path) }, Template, "", nil, &conditions.Path},
	{"agent", "Agent", func(s *Seen) string { return s.Request.Value(conditions.Agent) }, Family, "", strings.ToLower, &conditions.Agent},
	{"host", "Host", func(s *Seen) string { return s.Request.Value(conditions.Host) }, nil, "", strings.ToLower, &conditions.Host},
	{"method", "Method", func(s *Seen) string { return s.Request.Value(conditions.Method) }, strings.ToUpper, "", strings.ToUpper, &conditions.Method},
	{"policy", "Policy", func(s *Seen) string { return PolicyValue(s.Policy) }, nil, "none", nil, nil},
	{"rule", "Refused by", func(s *Seen) string { return s.RefusedBy }, nil, "not refused", nil, nil},
	{"outcome", "Reported outcome", func(s *Seen) string { return s.Outcome }, nil, "none", nil, nil},
	{"country", "Country", func(s *Seen) string { return s.Origin().Country.String() }, nil, "", strings.ToUpper, &conditions.Country},
	{"asn", "Network", func(s *Seen) string { return asnValue(s.Origin().ASN) }, nil, "", spellASN, &conditions.ASN},
	{"bot", "Bot", func(s *Seen) string { return s.Request.Value(conditions.Bot) }, nil, "no known bot", strings.ToLower, &conditions.Bot},
	{"verified", "Verification of the bot", func(s *Seen) string { return s.Request.Value(conditions.Verified) }, nil, "no known bot", strings.ToLower, &conditions.Verified},
}

// count is the number of dimensions.
const count = len(Dimensions)

// Names returns the names of all dimensions.
func Names() []string {
	names := make([]string, count)
	for i := range Dimensions {
		names[i] = Dimensions[i].Name
	}
	return names
}

// Find returns the index of the dimension of a name, false if there is none.
func Find(name string) (int, bool) {
	i := slices.IndexFunc(Dimensions[:], func(d Dimension) bool { return d.Name == name })
	return i, i >= 0
}

// PolicyID returns the policy that a value of the dimension "policy" is about, 0 for none.
func PolicyID(value string) int64 {
	id, _ := strconv.ParseInt(value, 10, 64)
	return id
}

// PolicyValue returns the value of the dimension "policy" for a policy, "" for 0.
func PolicyValue(id int64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatInt(id, 10)
}

func asnValue(number uint32) string {
	if number == 0 {
		return ""
	}
	return "AS" + strconv.FormatUint(uint64(number), 10)
}

// spellASN returns the value of the dimension "asn" for a number with or without AS.
func spellASN(text string) string {
	text = strings.ToUpper(text)
	if text == "" || strings.HasPrefix(text, "AS") {
		return text
	}
	return "AS" + text
}

// maxValue is the length of the longest value, in bytes.
const maxValue = 128

// ValueOf returns what dimension i counts of a value that its Find found: folded, at most maxValue
// bytes of valid UTF-8 without control characters, and independent of the memory of raw.
func ValueOf(i int, raw string) string {
	if fold := Dimensions[i].Fold; fold != nil {
		raw = fold(raw)
	}
	value := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '\uFFFD'
		}
		return r
	}, raw)
	if len(value) > maxValue {
		end := maxValue
		for !utf8.RuneStart(value[end]) {
			end--
		}
		value = value[:end]
	}
	return strings.Clone(value)
}
