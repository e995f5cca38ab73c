package bots

import (
	"crypto/ed25519"
	"crypto/sha256"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/httpsig"
	"github.com/stint-dev/stint/internal/keys"
)

// noHosts is why no signature verifies a bot while Directory.IsOurs is nil.
const noHosts = "no signature verifies a bot before --site-hosts says for which hosts"

// Why a signature verifies nobody, where more than one place says so.
const (
	tooOld     = "the keys of its operator are too old: they were not fetched for 7 days"
	usedBefore = "it was used before"
)

const (
	// signatureTag is what the signatures of bots are for: Web Bot Auth.
	signatureTag = "web-bot-auth"
	// maxSignedFor is for how long a signature may count, and maxAhead how far a signer's clock may be ahead.
	maxSignedFor = 60 * 60 // seconds
	maxAhead     = 10
	maxAgentSize = 1024 // bytes of the header Signature-Agent
	// maxSpent is how many signatures are remembered. Only those that are verified are: strangers cannot
	// fill the memory.
	maxSpent = 100_000
)

// Use is what a request is identified for. The signature of a request is verified once: who has read it on
// its way must not be able to send it again.
type Use struct {
	// ID names the request, "" for none. A gateway that checks a request again says the same ID.
	ID string
	// IsPeek leaves the signature to the check that follows.
	IsPeek bool
	// IsReport says that the request was checked before, for the same address.
	IsReport bool
	// IsRefused says that the request is refused whatever its signature says, which is not read.
	IsRefused bool
}

// signer is who has signed a request.
type signer struct {
	agent      *Agent // who the request says, nil for nobody that is known
	isVerified bool
}

// signerOf returns who has signed a request. named is whom its agent names.
func (d *Directory) signerOf(r *conditions.Request, named *Agent, address keys.Key, use Use) signer {
	signed := r.Signed()
	if before, is := signed.Memo.Load().(signer); is {
		return before
	}
	found := d.findSigner(r, named, address, use)
	signed.Memo.Store(found)
	return found
}

func (d *Directory) findSigner(r *conditions.Request, named *Agent, address keys.Key, use Use) (found signer) {
	signed := r.Signed()
	if !slices.ContainsFunc(signed.Input, func(line string) bool { return strings.Contains(line, signatureTag) }) {
		return found
	}
	all, err := httpsig.Read(signed.Input, signed.Signature)
	at := slices.IndexFunc(all, func(s httpsig.Signature) bool { return s.Tag == signatureTag })
	if err != nil || at < 0 {
		return found
	}
	s := &all[at]
	origin, isCovered := agentOf(signed, s)
	mayBe := signers[origin]
	if len(mayBe) == 0 {
		return found
	}
	found.agent = mayBe[0]
	if slices.Contains(mayBe, named) {
		found.agent = named
	}
	reason := d.refuse(r, s, origin, isCovered, address, use)
	found.isVerified = reason == ""
	if !found.isVerified {
		d.refused.Store(origin, reason)
	}
	return found
}

// agentOf returns the origin that the header Signature-Agent names as that of the signer, "" for none, and
// whether the signature covers that. The header is a dictionary of which the signature covers a member, or
// as the drafts had it first one string that it covers whole.
func agentOf(signed *conditions.Signed, s *httpsig.Signature) (origin string, isCovered bool) {
	size := 0
	for _, line := range signed.Agent {
		size += len(line)
	}
	if size == 0 || size > maxAgentSize {
		return "", false
	}
	read := func(member any) string {
		item, is := member.(httpsfv.Item)
		text, isText := item.Value.(string)
		if !is || !isText {
			return ""
		}
		if kind, is := item.Params.Get("type"); is && kind != "directory" && kind != httpsfv.Token("directory") {
			return ""
		}
		origin, _ := originOf(text)
		return origin
	}
	if item, err := httpsfv.UnmarshalItem(signed.Agent); err == nil {
		if _, isText := item.Value.(string); isText {
			return read(item), s.Covers(conditions.SignatureAgent)
		}
	}
	members, err := httpsfv.UnmarshalDictionary(signed.Agent)
	if err != nil {
		return "", false
	}
	for _, key := range s.CoveredKeys(conditions.SignatureAgent) {
		if member, is := members.Get(key); is {
			return read(member), true
		}
	}
	member, is := members.Get(s.Label)
	if names := members.Names(); !is && len(names) == 1 {
		member, is = members.Get(names[0])
	}
	if !is {
		return "", false
	}
	return read(member), s.Covers(conditions.SignatureAgent)
}

// refuse returns why a signature does not verify that a request is of a bot whose operator publishes its
// keys at origin, "" if it does, which spends it. To verify takes longer than all else: it comes last, for
// what may be good.
func (d *Directory) refuse(r *conditions.Request, s *httpsig.Signature, origin string, isCovered bool, address keys.Key, use Use) string {
	signed, now := r.Signed(), d.now()
	at := now.Unix()
	host, _, _ := strings.Cut(signed.Authority, ":")
	switch {
	case d.IsOurs == nil:
		return noHosts
	case len(s.Value) != ed25519.SignatureSize:
		return "it is no signature by Ed25519, of 64 bytes"
	case slices.Contains(testKeys, s.KeyID):
		return "it is signed by a published test key"
	case !isCovered:
		return "it does not cover Signature-Agent"
	case !s.Covers("@authority") && !s.Covers("@target-uri"):
		return "it does not cover @authority"
	case !d.IsOurs(host):
		return "it is for a host that is not among --site-hosts"
	case !s.HasCreated || !s.HasExpires || s.Expires <= s.Created || s.Expires-s.Created > maxSignedFor:
		return "it does not say for which time, of at most an hour, it counts"
	case s.Created > at+maxAhead:
		return "it is of the future"
	case at >= s.Expires:
		return "it has expired"
	case s.Created <= d.Began.Unix()+maxAhead: // it may have come when its signer's clock was ahead
		return "it may be older than this node, which cannot know whether it was used"
	}
	isMissing := func(all signingKeys) bool { _, has := all[s.KeyID]; return !has }
	published, isIgnored := d.Lists.keysOf(origin, isMissing)
	key, has := published[s.KeyID]
	once := nonceOf(origin, s)
	switch {
	case isIgnored:
		return tooOld
	case !has || !key.isCurrent(now):
		return "its key is not among those that the operator publishes, as far as this node knows them"
	case d.spent.isUsed(once, at, address, use):
		return usedBefore
	}
	m := httpsig.Message{Method: signed.Method, Scheme: signed.Scheme, Authority: signed.Authority, Target: r.Target(), Header: func(name string) []string {
		if name == conditions.SignatureAgent {
			return signed.Agent
		}
		return nil
	}}
	if !s.Verify(key.public, &m) {
		return "it is not of this request, or not by its key"
	}
	if !d.spent.take(once, s.Expires, at, address, use) {
		return usedBefore
	}
	return ""
}

// nonce is what makes a signature one that was never used: its nonce, or itself if it has none.
type nonce [16]byte

func nonceOf(origin string, s *httpsig.Signature) (n nonce) {
	hash := sha256.New()
	hash.Write([]byte(origin + "\x00" + s.KeyID + "\x00"))
	if s.Nonce != "" {
		hash.Write([]byte("nonce\x00" + s.Nonce))
	} else {
		hash.Write(s.Value)
	}
	copy(n[:], hash.Sum(nil))
	return n
}

// spent are the signatures that were used and have not expired, of this node. The zero value has none.
type spent struct {
	mu    sync.Mutex
	all   map[nonce]spentBy
	sweep int // at which size what has expired is forgotten
	// least is when the first of them expires at the earliest, and swept the second of the last sweep: a
	// sweep looks at all of them.
	least, swept int64
}

// spentBy is which request a signature was used for.
type spentBy struct {
	expires     int64
	address, id uint64 // hashes, 0 for none
}

var spentSeed = maphash.MakeSeed()

func hashed(text string) uint64 {
	if text == "" {
		return 0
	}
	return maphash.String(spentSeed, text)
}

// isUsed reports whether a signature was used before, for another request.
func (s *spent) isUsed(n nonce, now int64, address keys.Key, use Use) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, is := s.all[n]
	return is && now < before.expires && !before.isFor(address, use)
}

// isFor reports whether a request is the one that the signature was used for.
func (by *spentBy) isFor(address keys.Key, use Use) bool {
	other := spentByOf(address, use)
	return by.address == other.address && (by.id == other.id && by.id != 0 || use.IsReport && by.address != 0)
}

func spentByOf(address keys.Key, use Use) (by spentBy) {
	if by.id = hashed(use.ID); !address.IsZero() {
		by.address = hashed(address.String())
	}
	return by
}

// take reports whether a signature may be used, and remembers it until it expires.
func (s *spent) take(n nonce, expires, now int64, address keys.Key, use Use) bool {
	by := spentByOf(address, use)
	by.expires = expires
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, is := s.all[n]; is && now < before.expires {
		return before.isFor(address, use)
	}
	if use.IsPeek {
		return true
	}
	if s.all == nil {
		s.all, s.sweep, s.least = map[nonce]spentBy{}, 1000, math.MaxInt64
	}
	if len(s.all) >= s.sweep && now >= s.least && now != s.swept {
		s.forget(now)
	}
	if len(s.all) >= maxSpent {
		return false
	}
	s.all[n], s.least = by, min(s.least, expires)
	return true
}

// forget forgets what has expired. s.mu is held.
func (s *spent) forget(now int64) {
	s.least, s.swept = math.MaxInt64, now
	for n, by := range s.all {
		if now >= by.expires {
			delete(s.all, n)
		} else {
			s.least = min(s.least, by.expires)
		}
	}
	s.sweep = min(max(1000, 2*len(s.all)), maxSpent)
}

func (d *Directory) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}
