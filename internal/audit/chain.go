package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/fault"
)

// ErasedName is what the name of an erased key begins with: a keyed hash replaces it.
const ErasedName = "erased:"

// Hash is what the chain holds of one record: the SHA-256 of the hash of the
// record before and of the record's own content. The zero value precedes
// the first record.
type Hash [sha256.Size]byte

// String returns h in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Hash returns the hash of e after a record whose hash is previous. It covers
// every field with its length, so that no two different records look alike.
func (e *Record) Hash(previous Hash) Hash {
	sum := sha256.New()
	sum.Write([]byte("stint audit 1\x00"))
	sum.Write(previous[:])
	number := func(n int64) { sum.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) } //nolint:gosec // only its bits count
	number(e.ID)
	number(e.At.UnixMilli())
	number(e.Revision)
	for _, text := range []string{
		string(e.Actor.Kind), e.Actor.ID, e.Actor.Name, e.Actor.Address,
		e.Action, e.Object, e.ObjectID, e.Summary, string(e.Before), string(e.After),
	} {
		number(int64(len(text)))
		sum.Write([]byte(text))
	}
	return Hash(sum.Sum(nil))
}

// Link is one record's place in the chain.
type Link struct {
	ID   int64
	Hash Hash
}

// String returns "<id>:<hash>", which ParseHead reads.
func (l Link) String() string { return strconv.FormatInt(l.ID, 10) + ":" + l.Hash.String() }

// ParseHead reads a link as Link.String writes it, or a hash alone, whose ID
// is then 0.
func ParseHead(text string) (Link, error) {
	var l Link
	number, digits, both := strings.Cut(text, ":")
	if !both {
		digits = text
	} else {
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil || id < 1 {
			return l, badHead()
		}
		l.ID = id
	}
	hash, err := hex.DecodeString(digits)
	if err != nil || len(hash) != len(l.Hash) {
		return l, badHead()
	}
	l.Hash = Hash(hash)
	return l, nil
}

func badHead() error {
	return fault.Field("head", "must be what a verification printed as its head: the number of a record, a colon and 64 hexadecimal digits")
}

// HeadState says what became of a head that was kept elsewhere.
type HeadState string

// The states of a head that was kept.
const (
	HeadNotGiven HeadState = ""
	HeadInChain  HeadState = "in_chain" // nothing up to it was changed or removed since
	HeadMissing  HeadState = "missing"  // what stood there was changed or removed
	HeadExpired  HeadState = "expired"  // retention has removed that record; it cannot be compared
)

// Verification is what reading the whole chain has found.
type Verification struct {
	// Intact is true where every record fits the one before, and a head that
	// was given is not missing.
	Intact bool
	// Problem says what does not fit, "" where all does; ProblemID is the number
	// of the first record concerned, 0 where it is none.
	Problem   string
	ProblemID int64

	Records   int64 // that the chain covers
	Uncovered int64 // older than the chain
	Pending   int64 // written by a node of the release before, not in the chain yet
	First     time.Time
	// Anchor is the last record that retention has removed. Its hash is zero
	// where the chain begins with its first record.
	Anchor Link
	// Head is the newest link. Keep it elsewhere: the chain alone cannot show that
	// its newest records were removed, or that all of it was rewritten.
	Head Link
	Kept HeadState
}

// Verifier reads the chain.
type Verifier interface {
	// VerifyAudit recomputes the chain. kept is a head from before, the zero
	// Link for none.
	VerifyAudit(ctx context.Context, kept Link) (Verification, error)
}
