package bots

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// Identity is who a request says that it is, if that is a known bot, and how that was verified.
type Identity struct {
	Agent *Agent
	// Verified is how: conditions.Claimed if it was not, conditions.Spoofed if two ways say that the bot
	// is another one.
	Verified string
}

// The kinds of the keys of bots and of their categories.
const (
	Kind         = "bot"
	CategoryKind = "category"
)

// IsVerified reports whether the operator itself says that it is its bot.
func (i Identity) IsVerified() bool {
	return i.Agent != nil && i.Verified != conditions.Claimed && i.Verified != conditions.Spoofed
}

// Directory identifies bots. It looks nothing up while it is asked. It is safe for concurrent use, and
// the zero value knows the agents and verifies nobody.
type Directory struct {
	// Verifier verifies by DNS; nil for nobody.
	Verifier *Verifier
	// Lists are the addresses that operators publish; nil for none.
	Lists *Lists
}

// agents is the index of the tokens of all agents, in the order of known.
var known = Agents()

var tokens = func() *conditions.Index {
	all := make([]conditions.When, len(known))
	for i, a := range known {
		when, err := conditions.Parse(conditions.Texts{"agent": {"*" + a.Token + "*"}})
		if err != nil {
			panic(err)
		}
		all[i] = when
	}
	return conditions.NewIndex(all)
}()

// FindByAgent returns the bot that a request's User-Agent names, nil for none: of several the one with
// the longest token. r may be nil.
func FindByAgent(r *conditions.Request) (found *Agent) {
	tokens.Find(r, func(i int) {
		if found == nil || len(known[i].Token) > len(found.Token) {
			found = known[i]
		}
	})
	return found
}

// Identify returns who a request from an address says that it is; Agent is nil for no known bot. An
// address that DNS must still be asked about is looked up afterwards. address may be zero.
func (d *Directory) Identify(r *conditions.Request, address keys.Key) Identity {
	a := FindByAgent(r)
	if a == nil {
		return Identity{}
	}
	i := Identity{a, conditions.Claimed}
	from, isAddress := addressOf(address)
	if !isAddress {
		return i
	}
	listed := d.Lists.ask(a, from)
	if listed == yes {
		i.Verified = conditions.ByList
		return i
	}
	named := unknown
	if a.hasDNS() {
		named = d.Verifier.ask(a.Operator.Name, address, from)
	}
	switch {
	case named == yes:
		i.Verified = conditions.ByDNS
	case named == no && listed == no && !a.Devices:
		i.Verified = conditions.Spoofed
	}
	return i
}

// answered is what one way says of an address.
type answered uint8

const (
	unknown answered = iota
	yes
	no
)

// ask returns what is known of an address by DNS, and has it looked up if that is nothing.
func (v *Verifier) ask(operator string, key keys.Key, address netip.Addr) answered {
	if v == nil {
		return unknown
	}
	recognised := false
	for _, o := range v.o.Operators {
		recognised = recognised || o.Name == operator
	}
	if !recognised {
		return unknown
	}
	v.mu.RLock()
	found, has := v.known[address]
	isBelieved := has && found.believed(v.o.Now())
	v.mu.RUnlock()
	switch {
	case !isBelieved:
		v.Notice(key)
		return unknown
	case found.Operator == operator:
		return yes
	case found.failed || found.waiting:
		return unknown
	}
	return no
}

// Keys returns the keys under which policies count the identity and that blocks may name: the bot, as
// bot:openai/gptbot, and its category, as category:ai-training; none if it is no bot.
func (i Identity) Keys() []keys.Key {
	if i.Agent == nil {
		return nil
	}
	return i.Agent.keys[:]
}

// Describe returns r, which may be nil, with what is found of the bot, and if asksOrigin with the origin
// of the address.
func (d *Directory) Describe(r *conditions.Request, address keys.Key, asksOrigin bool) (*conditions.Request, Identity) {
	var f conditions.Found
	if asksOrigin {
		origin := keys.OriginOf(address)
		if f.Country = origin.Country.String(); origin.ASN != 0 {
			f.ASN = strconv.FormatUint(uint64(origin.ASN), 10)
		}
	}
	i := d.Identify(r, address)
	if i.Agent != nil {
		f.Bot, f.Category, f.Verified = i.Agent.name, i.Agent.Category, i.Verified
	}
	return r.With(f), i
}

// IsPattern reports whether a pattern selects bots, and nothing else.
func IsPattern(text string) bool {
	return strings.HasPrefix(text, Kind+":") || strings.HasPrefix(text, CategoryKind+":")
}

// IsStranger reports whether DNS is known to say that an address belongs to no operator.
func (v *Verifier) IsStranger(address netip.Addr) bool {
	if v == nil {
		return false
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	found, has := v.known[address]
	return has && found.Operator == "" && !found.failed && !found.waiting && found.believed(v.o.Now())
}
