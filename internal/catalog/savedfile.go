package catalog

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// A saved catalog is the magic text, the format's version as 4 bytes, the name of its database as
// a string, and the fields of Saved in their order. Numbers are varints, strings are their length
// and bytes, lists are their length and items, times are Unix milliseconds. The end is the
// CRC-32C of all of that as 4 bytes, little-endian.
const (
	savedMagic   = "stint last known policies and blocks\n"
	savedVersion = 4
	// savedVersion3 lacks the scopes of blocks.
	savedVersion3 = 3
	// savedVersion2 lacks the profiles.
	savedVersion2 = 2

	maxSavedText = 1 << 20
	maxSavedList = 1 << 28
)

// ErrSaved is matched by the error of a file that ReadSaved cannot use.
var ErrSaved = errors.New("cannot be used")

func badSaved(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSaved, fmt.Sprintf(format, args...))
}

// savedPolicy is a policy in the file.
type savedPolicy struct {
	ID, Version, Generation, Revision int64
	Name                              string
	Match, Rules                      []string
	When                              [4][]string // by conditions.Attribute
	Outcome, Scope                    string
	Mode                              rules.Mode
	OnFailure                         rules.OnFailure
	Algorithm                         string
	Options                           algorithms.Options
	Escalation                        *rules.Escalation
	Retention                         rules.Retention
	Created, Updated                  time.Time
	UpdatedBy                         string
	Also                              []string
	// AlsoRetention has one element for each of Also. Files of earlier versions have none.
	AlsoRetention []rules.Retention
}

// Write writes s for the database named source.
func (s *Saved) Write(w io.Writer, source string) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	out := bufio.NewWriterSize(w, 1<<16)
	e := &savedWriter{out: io.MultiWriter(out, sum)}
	e.bytes([]byte(savedMagic))
	e.bytes(binary.LittleEndian.AppendUint32(nil, savedVersion))
	e.text(source)
	e.number(s.Revision)
	e.number(int64(s.Settings.IPv6Bits))
	e.text(string(s.Settings.Secret))
	e.number(int64(len(s.Policies)))
	for _, p := range s.Policies {
		e.policy(p)
	}
	e.number(int64(len(s.Tokens)))
	for _, t := range s.Tokens {
		e.token(t)
	}
	e.number(int64(len(s.Entries)))
	for _, entry := range s.Entries {
		e.entry(entry)
	}
	e.number(int64(len(s.Profiles)))
	for _, p := range s.Profiles {
		e.profile(p)
	}
	e.flush()
	if e.err != nil {
		return e.err
	}
	if _, err := out.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return err
	}
	return out.Flush()
}

// savedWriter writes the parts of the file. It keeps the first error.
type savedWriter struct {
	out io.Writer
	row []byte
	err error
}

func (e *savedWriter) flush() {
	if e.err == nil && len(e.row) > 0 {
		_, e.err = e.out.Write(e.row)
	}
	e.row = e.row[:0]
}

func (e *savedWriter) bytes(b []byte) {
	if e.row = append(e.row, b...); len(e.row) > 1<<15 {
		e.flush()
	}
}

func (e *savedWriter) number(n int64) { e.row = binary.AppendVarint(e.row, n) }

func (e *savedWriter) text(s string) {
	e.number(int64(len(s)))
	if e.row = append(e.row, s...); len(e.row) > 1<<15 {
		e.flush()
	}
}

func (e *savedWriter) time(t time.Time) {
	if t.IsZero() {
		e.number(math.MinInt64)
		return
	}
	e.number(t.UnixMilli())
}

func (e *savedWriter) policy(p *rules.Policy) {
	match := make([]string, len(p.Match))
	for i, m := range p.Match {
		match[i] = m.String()
	}
	var when [4][]string
	for a := range when {
		when[a] = p.When.Texts(conditions.Attribute(a)) //nolint:gosec // four
	}
	retention := make([]rules.Retention, len(p.Also))
	for i, d := range p.Also {
		retention[i] = d.Retention
	}
	text, err := json.Marshal(savedPolicy{
		p.ID, p.Version, p.Generation, p.Revision, p.Name, match, p.Rules.Strings(), when, p.Outcome, p.Scope, p.Mode, p.OnFailure,
		p.Algorithm, p.Options, p.Escalation, p.Retention, p.Created, p.Updated, p.UpdatedBy, p.Also.Strings(), retention,
	})
	if err != nil && e.err == nil {
		e.err = err
	}
	e.text(string(text))
}

func (e *savedWriter) token(t *identity.Token) {
	e.text(t.ID)
	e.text(t.Name)
	e.text(t.Hint)
	e.text(string(t.Hash))
	e.number(int64(len(t.Scopes)))
	for _, scope := range t.Scopes {
		e.text(string(scope))
	}
	e.text(t.Author)
	e.time(t.Created)
	e.time(t.Expires)
	e.number(t.Revision)
}

func (e *savedWriter) entry(x *blocks.Entry) {
	e.text(x.ID)
	e.text(string(x.Kind))
	e.text(x.Pattern.String())
	e.text(x.Reason)
	e.text(x.Author)
	e.text(string(x.Source))
	e.number(x.PolicyID)
	e.number(int64(x.Level))
	e.time(x.Created)
	e.time(x.Expires)
	e.number(x.Revision)
	e.text(x.Scope)
}

// ReadSaved reads what Write has written for the same source. Otherwise the error matches
// ErrSaved and says what is wrong.
func ReadSaved(r io.Reader, source string) (*Saved, error) {
	d := &savedReader{in: bufio.NewReaderSize(r, 1<<16), sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	if string(d.bytes(len(savedMagic))) != savedMagic {
		return nil, badSaved("it is not a file of this kind")
	}
	version := binary.LittleEndian.Uint32(d.bytes(4))
	d.version = version
	if d.err == nil && (version < savedVersion2 || version > savedVersion) {
		return nil, badSaved("it has the format %d; this program reads %d", version, savedVersion)
	}
	if d.text() != source && d.err == nil {
		return nil, badSaved("it is of another database")
	}
	s := &Saved{Revision: d.number()}
	s.Settings = Settings{IPv6Bits: int(d.number()), Secret: []byte(d.text())}
	s.Policies = readList(d, d.policy)
	s.Tokens = readList(d, d.token)
	s.Entries = readList(d, d.entry)
	if version > savedVersion2 {
		s.Profiles = readList(d, d.profile)
	}
	want := d.sum.Sum32()
	if got := d.bytes(4); d.err == nil && binary.LittleEndian.Uint32(got) != want {
		return nil, badSaved("it is damaged: its checksum differs")
	}
	if _, err := d.in.ReadByte(); d.err == nil && !errors.Is(err, io.EOF) {
		return nil, badSaved("it is damaged: something follows its end")
	}
	if d.err != nil {
		return nil, d.err
	}
	return s, nil
}

// savedReader reads the parts of the file. It keeps the first error and reads nothing after it.
type savedReader struct {
	in                           *bufio.Reader
	sum                          hash.Hash32
	err                          error
	version                      uint32
	scope                        string // of the previous entry
	kind, reason, author, origin string // of the previous entry, because many entries share them
}

func (d *savedReader) fail(format string, args ...any) {
	if d.err == nil {
		d.err = badSaved(format, args...)
	}
}

// bytes returns n bytes, zeros after an error.
func (d *savedReader) bytes(n int) []byte {
	b := make([]byte, n)
	if d.err != nil {
		return b
	}
	if _, err := io.ReadFull(d.in, b); err != nil {
		d.fail("it is damaged or cut off (%v)", err)
	}
	d.sum.Write(b)
	return b
}

// ReadByte implements io.ByteReader for package binary.
func (d *savedReader) ReadByte() (byte, error) {
	b, err := d.in.ReadByte()
	if err == nil {
		d.sum.Write([]byte{b})
	}
	return b, err
}

func (d *savedReader) number() int64 {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadVarint(d)
	if err != nil {
		d.fail("it is damaged or cut off (%v)", err)
	}
	return n
}

func (d *savedReader) text() string {
	n := d.number()
	if n < 0 || n > maxSavedText {
		d.fail("it is damaged: a string of %d bytes", n)
	}
	if d.err != nil {
		return ""
	}
	return string(d.bytes(int(n)))
}

func (d *savedReader) time() time.Time {
	n := d.number()
	if n == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

func (d *savedReader) pattern() (p keys.Pattern) {
	text := d.text()
	if d.err != nil {
		return p
	}
	// A stored pattern is canonical: parsing it does not depend on the settings.
	p, err := (keys.Parser{}).Pattern(text)
	if err != nil {
		d.fail("it is damaged: a pattern that cannot be read")
	}
	return p
}

// readList reads a list. read reads one item.
func readList[T any](d *savedReader, read func() T) []T {
	n := d.number()
	if n < 0 || n > maxSavedList {
		d.fail("it is damaged: a list of %d items", n)
	}
	var all []T
	for i := int64(0); i < n && d.err == nil; i++ {
		all = append(all, read())
	}
	return all
}

func (d *savedReader) policy() *rules.Policy {
	text := d.text()
	if d.err != nil {
		return nil
	}
	var p savedPolicy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		d.fail("it is damaged: a policy that cannot be read")
		return nil
	}
	policy := &rules.Policy{
		ID: p.ID, Version: p.Version, Generation: p.Generation, Revision: p.Revision, Name: p.Name, Outcome: p.Outcome, Scope: p.Scope, Mode: p.Mode, OnFailure: p.OnFailure,
		Algorithm: p.Algorithm, Options: p.Options, Escalation: p.Escalation, Retention: p.Retention,
		Created: p.Created, Updated: p.Updated, UpdatedBy: p.UpdatedBy,
	}
	var err error
	if policy.Rules, err = rules.ParseStack(p.Rules); err != nil {
		d.fail("it is damaged: rules that cannot be read")
	}
	if policy.Also, err = rules.ParseAlso(p.Also); err != nil {
		d.fail("it is damaged: further keys that cannot be read")
	}
	for i := range min(len(policy.Also), len(p.AlsoRetention)) {
		policy.Also[i].Retention = p.AlsoRetention[i]
	}
	if policy.When, err = conditions.Parse(p.When); err != nil {
		d.fail("it is damaged: conditions that cannot be read")
	}
	for _, text := range p.Match {
		m, err := (keys.Parser{}).Pattern(text)
		if err != nil {
			d.fail("it is damaged: a pattern that cannot be read")
		}
		policy.Match = append(policy.Match, m)
	}
	if err := policy.Validate(); err != nil {
		d.fail("it is damaged: the policy %d is wrong", p.ID)
	}
	return policy
}

func (d *savedReader) token() *identity.Token {
	t := &identity.Token{ID: d.text(), Name: d.text(), Hint: d.text(), Hash: []byte(d.text())}
	t.Scopes = readList(d, func() identity.Access { return identity.Access(d.text()) })
	t.Author, t.Created, t.Expires, t.Revision = d.text(), d.time(), d.time(), d.number()
	if len(t.Hash) != 32 {
		d.fail("it is damaged: a token's hash of %d bytes", len(t.Hash))
	}
	return t
}

func (d *savedReader) entry() *blocks.Entry {
	e := &blocks.Entry{ID: d.text()}
	d.kind = same(d.text(), d.kind)
	e.Kind, e.Pattern = blocks.Kind(d.kind), d.pattern()
	d.reason, d.author, d.origin = same(d.text(), d.reason), same(d.text(), d.author), same(d.text(), d.origin)
	e.Reason, e.Author, e.Source = d.reason, d.author, blocks.Source(d.origin)
	e.PolicyID, e.Level = d.number(), int(d.number())
	e.Created, e.Expires, e.Revision = d.time(), d.time(), d.number()
	if d.version > savedVersion3 {
		d.scope = same(d.text(), d.scope)
		e.Scope = d.scope
	}
	if e.Kind != blocks.Block && e.Kind != blocks.Exemption {
		d.fail("it is damaged: an entry of an unknown kind")
	}
	return e
}

// same returns known if it equals text, so that a million blocks of one import share one copy of
// their reason.
func same(text, known string) string {
	if text == known {
		return known
	}
	return text
}
