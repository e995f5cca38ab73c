package bots

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// Identity is who a request says that it is, if that is a known bot, and how that was verified.
type Identity struct {
	Agent *Agent
	// Verified is how: conditions.Claimed if it was not, conditions.Spoofed if two ways say that the bot
	// is another one.
	Verified string
	// canBeVerified reports that the node could have verified the bot.
	canBeVerified bool
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

// IsCrawler reports whether it is a verified bot that chooses by links what it asks for: what it asks for is
// what others have linked to. One that fetches what somebody names to it is none.
func (i Identity) IsCrawler() bool {
	if !i.IsVerified() {
		return false
	}
	switch i.Agent.Category {
	case "search", "ai-training", "seo", "archive":
		return true
	}
	return false
}

// Directory identifies bots. It looks nothing up while it is asked. It is safe for concurrent use, and
// the zero value knows the agents and verifies nobody.
type Directory struct {
	// Verifier verifies by DNS; nil for nobody.
	Verifier *Verifier
	// Lists are the addresses and the keys that operators publish; nil for none.
	Lists *Lists
	// IsOurs reports whether a host is one for which bots sign their requests to us: a signature for another
	// one is made for somebody else, who sends it on. nil is for none, so that no signature verifies a bot.
	IsOurs func(host string) bool
	// Began is since when the directory remembers which signatures were used: one that may be older
	// verifies nobody. Now nil means time.Now.
	Began time.Time
	Now   func() time.Time

	spent   spent
	refused sync.Map // why the last signature of an origin that verified nobody did not
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

// CanVerify reports whether the node can verify requests of a bot: it has the lists of its
// operator, or the keys by which the bot signs, or asks DNS about it.
func (d *Directory) CanVerify(a *Agent) bool {
	return d.Lists.has(a) || d.IsOurs != nil && d.Lists.hasKeys(a) || a.hasDNS() && d.Verifier.recognises(a.Operator.Name)
}

// Refused returns why the last signature that names a list of keys verified nobody, or why none can, ""
// for no reason.
func (d *Directory) Refused(list string) string {
	if d.IsOurs == nil && strings.HasSuffix(list, keysPath) {
		return noHosts
	}
	reason, _ := d.refused.Load(strings.TrimSuffix(list, keysPath))
	text, _ := reason.(string)
	return text
}

// As returns the identity of a request of a bot that was verified in a way.
func (d *Directory) As(a *Agent, verified string) Identity {
	return Identity{Agent: a, Verified: verified, canBeVerified: d.CanVerify(a)}
}

// Identify returns who a request from an address says that it is; Agent is nil for no known bot. An
// address that DNS must still be asked about is looked up afterwards, and so are keys. address may be zero.
func (d *Directory) Identify(r *conditions.Request, address keys.Key, use Use) Identity {
	a := FindByAgent(r)
	if r.Signed() != nil && !use.IsRefused {
		by := d.signerOf(r, a, address, use)
		if by.isVerified {
			return d.As(by.agent, conditions.BySignature)
		}
		if a == nil {
			a = by.agent
		}
	}
	if a == nil {
		return Identity{}
	}
	i := d.As(a, conditions.Claimed)
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
	if !v.recognises(operator) {
		return unknown
	}
	found := v.find(address)
	if !found.believed(v.o.Now()) {
		v.Notice(key) // what was known of it holds until that is over
		found = v.find(address)
	}
	switch {
	case !found.believed(v.o.Now()):
		return unknown
	case found.Operator == operator:
		return yes
	case found.Operator == "" && !found.isStranger():
		return unknown
	}
	return no
}

func (v *Verifier) recognises(operator string) bool {
	return v != nil && slices.ContainsFunc(v.o.Operators, func(o Operator) bool { return o.Name == operator })
}

func (v *Verifier) find(address netip.Addr) answer {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.known[address]
}

// Keys returns the keys by which policies and blocks select the identity: the bot, as bot:openai/gptbot,
// and its category, as category:ai-training; none if it is no bot.
func (i Identity) Keys() []keys.Key {
	if i.Agent == nil {
		return nil
	}
	return i.Agent.keys[0][:]
}

// CountedKeys returns the keys under which policies count the identity, in the order of Keys. Those who
// say to be a bot that the node can verify, and are not, have keys of their own, as
// bot:openai/gptbot/claimed: they must not use up what the bot may do.
func (i Identity) CountedKeys() []keys.Key {
	switch {
	case i.Agent == nil:
		return nil
	case i.Verified == conditions.Spoofed:
		return i.Agent.keys[2][:]
	case i.Verified == conditions.Claimed && i.canBeVerified:
		return i.Agent.keys[1][:]
	}
	return i.Agent.keys[0][:]
}

// SelectedKey returns the key by which policies select what counts under k: that of the bot, if k is the
// key of those who say to be it.
func SelectedKey(k keys.Key) keys.Key {
	if text := k.String(); IsPattern(text) {
		for _, suffix := range liarsSuffix {
			if bot, is := strings.CutSuffix(text, suffix); is {
				if selected, err := (keys.Parser{}).Key(bot); err == nil {
					return selected
				}
			}
		}
	}
	return k
}

// IsSelected reports whether a pattern selects any bot that is known, or those who say to be it.
func IsSelected(p keys.Pattern) bool {
	return slices.ContainsFunc(known, func(a *Agent) bool {
		return slices.ContainsFunc(a.keys[:], func(of botKeys) bool { return slices.ContainsFunc(of[:], p.Matches) })
	})
}

// Describe returns r, which may be nil, with what is found of the bot, and if asksOrigin with the origin
// of the address.
func (d *Directory) Describe(r *conditions.Request, address keys.Key, asksOrigin bool, use Use) (*conditions.Request, Identity) {
	i := d.Identify(r, address, use)
	return r.With(found(i, i.Verified, address, asksOrigin)), i
}

// FoundOf returns r, which may be nil, with what is found without a Directory: the bot that it says to be
// of, but not whether that is true, and the origin of the address.
func FoundOf(r *conditions.Request, address keys.Key) *conditions.Request {
	return r.With(found(Identity{Agent: FindByAgent(r)}, "", address, true))
}

func found(i Identity, verified string, address keys.Key, asksOrigin bool) (f conditions.Found) {
	if asksOrigin {
		origin := keys.OriginOf(address)
		if f.Country = origin.Country.String(); origin.ASN != 0 {
			f.ASN = strconv.FormatUint(uint64(origin.ASN), 10)
		}
	}
	if i.Agent != nil {
		f.Bot, f.Category, f.Verified = i.Agent.name, i.Agent.Category, verified
	}
	return f
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
	found := v.find(address)
	return found.isStranger() && found.believed(v.o.Now())
}
