package recorder

import (
	"hash/maphash"
	"math/bits"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

type offenceKey struct {
	in     *policyMinute
	key    string
	source *string // the stored copy of the minute, nil for none
	kind   offences.Kind
	rule   rules.Rule    // set for Limited and Shadow
	block  *blocks.Entry // set for Blocked
}

// sourceSeed keeps callers, who choose their sources, from choosing sources with equal hashes.
var sourceSeed = maphash.MakeSeed()

var unitSeed = maphash.MakeSeed()

// mix returns the hash of k; hash is that of its key.
func (k *offenceKey) mix(hash uint64) uint64 {
	hash = k.in.mix(hash)
	hash = mixIn(mixIn(hash, uint64(k.rule.Limit)<<2|uint64(k.kind)), uint64(k.rule.Window))
	if k.block != nil {
		hash = mixIn(hash, uint64(k.block.Revision))
	}
	if k.source != nil {
		hash = mixIn(hash, maphash.String(sourceSeed, *k.source))
	}
	return hash
}

// mixIn mixes eight more bytes into a hash, as xxhash does.
func mixIn(hash, more uint64) uint64 {
	const prime1, prime2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
	return bits.RotateLeft64(hash^more*prime2, 27) * prime1
}

func (k *offenceKey) refusedBy() string {
	if k.block != nil {
		return k.block.ID
	}
	return k.rule.String()
}

type offenceValue struct {
	first, last refusalSample
	met         []conditions.Met // of first
	unit        uint64           // the hash of the network that the key belongs to, or of the key
	before      uint32           // how often it was refused until it was evicted before, roughly
	crowd       uint32           // how many keys of the unit have had entries, roughly; set where entries are ranked
}

func (v *offenceValue) reset() {
	v.first.reset()
	v.last.reset()
	v.met = nil
	v.unit, v.before, v.crowd = 0, 0, 0
}

// seen returns how often the key of e was refused in its minute, as far as that is known. Entries
// are ranked by it.
func seen(e *offenceEntry) uint32 { return e.certain + e.value.before }

// unitOf returns the hash of the safety unit of a key; hash is that of the key.
func unitOf(k keys.Key, hash uint64) uint64 {
	network, is := offences.SafetyNetwork(k)
	if !is {
		return hash
	}
	var room [48]byte // for the longest network
	return maphash.Bytes(unitSeed, network.AppendTo(room[:0]))
}

type trafficKey struct {
	in  *policyMinute
	key string
}

// mix returns the hash of a key in p; hash is that of the key alone.
func (p *policyMinute) mix(hash uint64) uint64 {
	return mixIn(mixIn(hash, uint64(p.minute.start)), uint64(p.policy))
}

// trafficValue is the traffic of a key since the last drain.
type trafficValue struct {
	cost             int64
	allowed, refused uint32
}

func (v *trafficValue) reset() { *v = trafficValue{} }

type (
	offenceEntry = entry[offenceKey, offenceValue]
	trafficEntry = entry[trafficKey, trafficValue]
)
