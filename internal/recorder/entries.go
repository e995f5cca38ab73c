package recorder

import (
	"hash/maphash"
	"math/bits"

	"github.com/stint-dev/stint/internal/blocks"
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

type offenceValue struct{ first, last refusalSample }

func (v *offenceValue) reset() { v.first.reset(); v.last.reset() }

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
