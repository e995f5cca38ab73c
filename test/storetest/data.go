package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

// VerifyChain verifies the chain, which must be readable.
func VerifyChain(t *testing.T, f *Fixture, kept audit.Link) audit.Verification {
	t.Helper()
	v, err := f.Audit.VerifyAudit(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// WantIntactChain fails the test unless the chain is intact.
func WantIntactChain(t *testing.T, f *Fixture, kept audit.Link) audit.Verification {
	t.Helper()
	v := VerifyChain(t, f, kept)
	if !v.Intact || v.Problem != "" {
		t.Fatalf("VerifyAudit: got %+v, want an intact chain", v)
	}
	return v
}

// Backup writes a backup and returns its path.
func Backup(t testing.TB, f *Fixture) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup.db")
	if err := f.Backup(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// NewBlock returns a block of a pattern, permanent for the zero time.
func NewBlock(t testing.TB, text string, expires time.Time) blocks.Entry {
	t.Helper()
	return blocks.Entry{Kind: blocks.Block, Pattern: keytest.Pattern(t, text), Reason: "scraping", Expires: expires}
}

// FullBlock returns a block of a pattern with a value in each field that is not the store's own, so that tests show
// where one is lost: a new field of entries has to get one here.
func FullBlock(t testing.TB, text string, expires time.Time) blocks.Entry {
	t.Helper()
	b := NewBlock(t, text, expires)
	b.Scope, b.Action, b.Author, b.Source, b.PolicyID, b.Level = "login", blocks.Challenge, "escalation", blocks.Automatic, 7, 3
	fields := reflect.ValueOf(b)
	for _, f := range reflect.VisibleFields(fields.Type()) {
		if isOwn := slices.Contains([]string{"ID", "Created", "End", "Revision", "From"}, f.Name); !isOwn && fields.FieldByIndex(f.Index).IsZero() {
			t.Fatalf("FullBlock has no value of the field %s", f.Name)
		}
	}
	return b
}

// AddEntry adds an entry as Operator.
func AddEntry(t testing.TB, f *Fixture, b blocks.Entry, on blocks.Conflict) blocks.Added {
	t.Helper()
	added, err := f.Entries.Add(t.Context(), Operator, on, b)
	if err != nil {
		t.Fatal(err)
	}
	return added[0]
}

// Patterns returns the patterns of blocks, sorted bytewise.
func Patterns(all []*blocks.Entry) string {
	var texts []string
	for _, b := range all {
		texts = append(texts, b.Pattern.String())
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// Changes is what EachChange returned, with its entries read.
type Changes struct {
	catalog.Changes
	Blocks     []*blocks.Entry
	Exemptions []*blocks.Entry
	Called     bool
}

// ChangesSince reads what changed beyond a revision.
func ChangesSince(t testing.TB, s catalog.Source, since int64) Changes {
	t.Helper()
	var got Changes
	err := s.EachChange(t.Context(), catalog.Position{Revision: since}, func(ch catalog.Changes) (err error) {
		got.Changes, got.Called = ch, true
		all, err := Collect(ch.Entries)
		for _, e := range all {
			if e.Kind == blocks.Exemption {
				got.Exemptions = append(got.Exemptions, e)
			} else {
				got.Blocks = append(got.Blocks, e)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Collect reads a sequence to its end or first error.
func Collect[T any](all iter.Seq2[T, error]) (read []T, err error) {
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		read = append(read, item)
	}
	return read, nil
}

// CrossingBatch returns a batch in which n keys of all kinds, those of a set, reach
// the threshold.
func CrossingBatch(set string, n int, at time.Time) *offences.Batch {
	b := &offences.Batch{ID: fmt.Sprintf("%s at %d", set, at.UnixMilli()), Node: "a"}
	minute := at.Truncate(time.Minute).UnixMilli()
	for i := range n {
		key := []string{
			fmt.Sprintf("ip:10.%d.%d.%d", len(set), i>>8&255, i&255),
			fmt.Sprintf("ip:2001:db8:%x:%x::/64", len(set), i+1),
			fmt.Sprintf("token:%s-%06d", set, i),
		}[i%3]
		o := offences.Offence{Minute: minute, Policy: 7, Key: key, RefusedBy: "1/1s", Count: 10,
			First: offences.Refusal{At: at.UnixMilli()}, Last: offences.Refusal{At: at.UnixMilli()}}
		mac := sha256.Sum256([]byte(key))
		copy(o.MAC[:], mac[:])
		b.Offences = append(b.Offences, o)
		b.Keys = append(b.Keys, offences.KeyTraffic{Minute: minute, Policy: 7, Key: key, Refused: 10})
	}
	b.Totals = []offences.Totals{{Minute: minute, Policy: 7, Counts: offences.Counts{Limited: int64(10 * n)}}}
	return b
}

// EvaluationAt evaluates the batches of CrossingBatch at the clock's time.
func EvaluationAt(f *Fixture) offences.Evaluation {
	policy := &rules.Policy{ID: 7, Name: "default", Mode: rules.Enforce, Escalation: Escalation()}
	return offences.Evaluation{Escalations: offences.EscalationsOf([]*rules.Policy{policy}), SafetyLimit: 1, Now: f.Clock.Now()}
}

// Escalation blocks a key for 10 minutes after 10 offences in 5 minutes.
func Escalation() *rules.Escalation {
	return &rules.Escalation{Threshold: 10, Window: 5 * time.Minute, Duration: 10 * time.Minute, Factor: 2, MaxDuration: 30 * time.Minute, DecayAfter: time.Hour}
}

// NewToken returns a token that is not stored yet.
func NewToken(name string, scopes ...identity.Access) identity.Token {
	hash := sha256.Sum256([]byte("secret of " + name))
	return identity.Token{Name: name, Hint: "stint_ab", Hash: hash[:], Scopes: scopes}
}

// AddToken adds a token as Operator.
func AddToken(t testing.TB, f *Fixture, name string, scopes ...identity.Access) *identity.Token {
	t.Helper()
	token, err := f.Identities.AddToken(t.Context(), Operator, NewToken(name, scopes...))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// AddUser adds a user as Operator.
func AddUser(t testing.TB, f *Fixture, name string, role identity.Role) *identity.User {
	t.Helper()
	u, err := f.Identities.AddUser(t.Context(), Operator, identity.User{Name: name, Role: role, PasswordHash: "$argon2id$secret"})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// BeginSession logs a user in and returns the hash of the session.
func BeginSession(t testing.TB, f *Fixture, u *identity.User, secret string) []byte {
	t.Helper()
	hash := sha256.Sum256([]byte(secret))
	now := f.Clock.Now()
	err := f.Identities.BeginSession(t.Context(), Operator, identity.Session{
		Hash: hash[:], UserID: u.ID, CSRF: "c", Created: now, LastSeen: now, Expires: now.Add(time.Hour), Address: "192.0.2.1", Agent: "firefox",
	}, u.PasswordHash, "ip:192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	return hash[:]
}

// Sequence yields entries without an error.
func Sequence(all ...blocks.Entry) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for _, b := range all {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// Blocks yields n blocks of different addresses.
func Blocks(t testing.TB, n int) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for i := range n {
			b := NewBlock(t, fmt.Sprintf("ip:10.%d.%d.%d", i>>16&255, i>>8&255, i&255), time.Time{})
			if !yield(b, nil) {
				return
			}
		}
	}
}

// NewPolicy returns one that enforces stack on a pattern.
func NewPolicy(t testing.TB, name, match string, stack ...string) *rules.Policy {
	t.Helper()
	parsed, err := rules.ParseStack(stack)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Policy{
		Name: name, Match: []keys.Pattern{keytest.Pattern(t, match)}, Rules: parsed,
		Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog,
	}
}

// PutPolicy stores a policy as Operator.
func PutPolicy(t testing.TB, store rules.Store, p *rules.Policy, expect etag.Tag) *rules.Policy {
	t.Helper()
	made, err := store.PutPolicy(t.Context(), Operator, p, expect)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TagOf returns the tag of a policy as it is now.
func TagOf(t testing.TB, store rules.Store, name string) etag.Tag {
	t.Helper()
	p, err := store.FindPolicyByName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return rules.TagOf(p)
}

// TagOfVersion returns the tag of a version of a policy; of one that is not kept, a tag that
// no version has.
func TagOfVersion(t testing.TB, store rules.Store, name string, version int64) etag.Tag {
	t.Helper()
	all, err := store.PolicyVersions(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Version == version {
			return rules.TagOf(p)
		}
	}
	return etag.Tag(strconv.FormatInt(version, 10) + "-0123456789abcdef")
}

// WantFault fails the test unless err is a fault of that code.
func WantFault(t testing.TB, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Fatalf("got the error %v, want a fault with the code %s", err, code)
	}
}

// NewestRecord returns the newest audit record.
func NewestRecord(t testing.TB, f *Fixture) *audit.Record {
	t.Helper()
	page, err := f.Audit.FindRecords(t.Context(), audit.Filter{Limit: 1})
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("FindRecords: got %v, error %v, want the newest record", page.Records, err)
	}
	return page.Records[0]
}

// TwoFactorStore is what SetUpTOTP needs of a store.
type TwoFactorStore interface {
	StartTOTP(ctx context.Context, user string, session []byte, fresh identity.TOTPSecret) (identity.TOTPSecret, error)
	EnableTOTP(ctx context.Context, by audit.Actor, user string, session []byte, secret identity.TOTPSecret, step int64, codes [][]byte) error
}

// SetUpTOTP gives a user a second factor that has accepted no code yet, in a session that
// does not exist, and returns its secret and recovery codes.
func SetUpTOTP(t testing.TB, store TwoFactorStore, user string) (identity.TOTPSecret, []string) {
	t.Helper()
	session := identity.HashSecret("set-up")
	secret, err := store.StartTOTP(t.Context(), user, session[:], identity.NewTOTPSecret())
	if err != nil {
		t.Fatal(err)
	}
	codes, hashes := identity.NewRecoveryCodes()
	if err := store.EnableTOTP(t.Context(), Operator, user, session[:], secret, 0, hashes); err != nil {
		t.Fatal(err)
	}
	return secret, codes
}
