package catalog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// A saved catalog is lines of JSON: a savedHead, a savedRow for each policy, token, entry and
// profile, and a savedEnd, which has the CRC-32C of all bytes before it. Times are Unix
// milliseconds.
const (
	savedKind    = "last known policies and blocks"
	savedVersion = 6
	// maxSavedLine is more than the largest policy takes.
	maxSavedLine = 8 << 20
)

type savedHead struct {
	Kind     string `json:"stint"`
	Version  int    `json:"version"`
	Source   string `json:"source"` // the name of the database
	Revision int64  `json:"revision"`
	IPv6Bits int    `json:"ipv6_bits"`
	Secret   []byte `json:"secret"`
}

// savedRow has one of its fields.
type savedRow struct {
	Policy  *savedPolicy  `json:"policy,omitzero"`
	Token   *savedToken   `json:"token,omitzero"`
	Entry   *blocks.Row   `json:"entry,omitzero"`
	Profile *savedProfile `json:"profile,omitzero"`
}

type savedPolicy struct {
	Document   wire.PolicyRequest `json:"document"`
	ID         int64              `json:"id"`
	Version    int64              `json:"version"`
	Generation int64              `json:"generation"`
	Revision   int64              `json:"revision"`
	Retention  savedRetention     `json:"retention"`
	Also       []savedRetention   `json:"also_retention,omitempty"` // of each of the further keys
	Created    int64              `json:"created"`
	Updated    int64              `json:"updated"`
	UpdatedBy  string             `json:"updated_by"`
}

type savedRetention struct {
	Entries int   `json:"entries"`
	Window  int64 `json:"window"` // milliseconds
}

type savedToken struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Hint     string            `json:"hint"`
	Hash     []byte            `json:"hash"`
	Scopes   []identity.Access `json:"scopes"`
	Author   string            `json:"author"`
	Created  int64             `json:"created"`
	Expires  int64             `json:"expires,omitzero"`
	Revision int64             `json:"revision"`
}

type savedProfile struct {
	Key     string   `json:"key"`
	Plan    string   `json:"plan,omitzero"`
	Rules   []string `json:"rules,omitempty"` // of its own limit
	Reason  string   `json:"reason,omitzero"`
	Author  string   `json:"author,omitzero"`
	Created int64    `json:"created,omitzero"`
	Expires int64    `json:"expires,omitzero"`
}

// ErrSaved is matched by the error of a file that ReadSaved cannot use.
var ErrSaved = errors.New("cannot be used")

func badSaved(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSaved, fmt.Sprintf(format, args...))
}

// savedEnd returns the last line of a file whose other lines have a checksum.
func savedEnd(sum uint32) string { return fmt.Sprintf("{\"crc32c\":\"%08x\"}\n", sum) }

// Write writes s for the database named source.
func (s *Saved) Write(w io.Writer, source string) error {
	out := bufio.NewWriterSize(w, 1<<16)
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	lines := io.MultiWriter(out, sum)
	var err error
	line := func(v any) {
		var text []byte
		if err != nil {
			return
		}
		if text, err = json.Marshal(v); err == nil {
			_, err = lines.Write(append(text, '\n'))
		}
	}
	line(savedHead{savedKind, savedVersion, source, s.Revision, s.Settings.IPv6Bits, s.Settings.Secret})
	for _, p := range s.Policies {
		line(savedRow{Policy: savePolicy(p)})
	}
	for _, t := range s.Tokens {
		line(savedRow{Token: &savedToken{t.ID, t.Name, t.Hint, t.Hash, t.Scopes, t.Author, toMS(t.Created), toMS(t.Expires), t.Revision}})
	}
	for _, e := range s.Entries {
		row := e.Row()
		line(savedRow{Entry: &row})
	}
	for _, p := range s.Profiles {
		row := &savedProfile{Key: p.Key, Plan: p.Plan}
		if l := p.Limit; l != nil {
			row.Rules, row.Reason, row.Author, row.Created, row.Expires = l.Rules.Strings(), l.Reason, l.Author, toMS(l.Created), toMS(l.Expires)
		}
		line(savedRow{Profile: row})
	}
	if err != nil {
		return err
	}
	if _, err := out.WriteString(savedEnd(sum.Sum32())); err != nil {
		return err
	}
	return out.Flush()
}

func savePolicy(p *rules.Policy) *savedPolicy {
	saved := &savedPolicy{
		Document: p.Document(), ID: p.ID, Version: p.Version, Generation: p.Generation, Revision: p.Revision,
		Retention: saveRetention(p.Retention), Created: toMS(p.Created), Updated: toMS(p.Updated), UpdatedBy: p.UpdatedBy,
	}
	for _, d := range p.Also {
		saved.Also = append(saved.Also, saveRetention(d.Retention))
	}
	return saved
}

func saveRetention(r rules.Retention) savedRetention {
	return savedRetention{r.Entries, r.Window.Milliseconds()}
}

func (r savedRetention) retention() rules.Retention {
	return rules.Retention{Entries: r.Entries, Window: time.Duration(r.Window) * time.Millisecond}
}

// toMS returns Unix milliseconds, 0 for the zero time.
func toMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMS(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// ReadSaved reads what Write has written for the same source. Otherwise the error matches
// ErrSaved and says what is wrong.
func ReadSaved(r io.Reader, source string) (*Saved, error) {
	lines, sum := bufio.NewScanner(r), crc32.New(crc32.MakeTable(crc32.Castagnoli))
	lines.Buffer(nil, maxSavedLine)
	lines.Split(wholeLine)
	next := func() ([]byte, error) {
		if !lines.Scan() {
			return nil, badSaved("it is damaged or cut off (%v)", lines.Err())
		}
		return lines.Bytes(), nil
	}
	var head savedHead
	line, err := next()
	if err == nil {
		err = json.Unmarshal(line, &head)
	}
	switch {
	case err != nil || head.Kind != savedKind:
		return nil, badSaved("it is not a file of this kind, or one of an earlier version")
	case head.Version != savedVersion:
		return nil, badSaved("it has the format %d; this program reads %d", head.Version, savedVersion)
	case head.Source != source:
		return nil, badSaved("it is of another database")
	}
	s := &Saved{Revision: head.Revision, Settings: Settings{IPv6Bits: head.IPv6Bits, Secret: head.Secret}}
	for shared := (map[string]string{}); ; {
		sum.Write(line)
		if line, err = next(); err != nil {
			return nil, err
		}
		if string(line) == savedEnd(sum.Sum32()) {
			break
		}
		var row savedRow
		if err := json.Unmarshal(line, &row, json.RejectUnknownMembers(true)); err != nil {
			return nil, badSaved("it is damaged: a line that cannot be read, or its checksum differs")
		}
		if err := s.take(&row, shared); err != nil {
			return nil, badSaved("it is damaged: %v", err)
		}
	}
	if lines.Scan() || lines.Err() != nil {
		return nil, badSaved("it is damaged: something follows its end")
	}
	return s, nil
}

// wholeLine is a bufio.SplitFunc for lines with their ends, which the last one has too.
func wholeLine(data []byte, atEOF bool) (int, []byte, error) {
	end := bytes.IndexByte(data, '\n') + 1
	if end == 0 && atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	if end == 0 {
		return 0, nil, nil
	}
	return end, data[:end], nil
}

// take adds a row. Many entries have the same reason and author, which shared keeps one copy of.
func (s *Saved) take(row *savedRow, shared map[string]string) error {
	share := func(text string) string {
		if known, is := shared[text]; is {
			return known
		}
		if len(shared) < 1000 {
			shared[text] = text
		}
		return text
	}
	if p := row.Policy; p != nil {
		policy, err := p.policy()
		if err != nil {
			return fmt.Errorf("the policy %d: %w", p.ID, err)
		}
		s.Policies = append(s.Policies, policy)
	}
	if t := row.Token; t != nil {
		if len(t.Hash) != 32 {
			return fmt.Errorf("a token's hash of %d bytes", len(t.Hash))
		}
		s.Tokens = append(s.Tokens, &identity.Token{
			ID: t.ID, Name: t.Name, Hint: t.Hint, Hash: t.Hash, Scopes: t.Scopes, Author: t.Author,
			Created: fromMS(t.Created), Expires: fromMS(t.Expires), Revision: t.Revision,
		})
	}
	if e := row.Entry; e != nil {
		e.Reason, e.Author, e.Scope = share(e.Reason), share(e.Author), share(e.Scope)
		entry, err := e.Entry()
		if err == nil && entry.Pattern.IsZero() {
			err = fmt.Errorf("the pattern %q cannot be read", e.Pattern)
		}
		if err != nil {
			return err
		}
		s.Entries = append(s.Entries, entry)
	}
	if p := row.Profile; p != nil {
		profile := &profiles.Profile{Key: p.Key, Plan: p.Plan}
		if len(p.Rules) > 0 {
			stack, err := rules.ParseStack(p.Rules)
			if err != nil {
				return err
			}
			profile.Limit = &profiles.Limit{Rules: stack, Reason: p.Reason, Author: p.Author, Created: fromMS(p.Created), Expires: fromMS(p.Expires)}
		}
		s.Profiles = append(s.Profiles, profile)
	}
	return nil
}

func (p *savedPolicy) policy() (*rules.Policy, error) {
	policy, err := rules.ReadDocument(&p.Document, keys.Parser{}.Pattern)
	if err != nil {
		return nil, err
	}
	policy.ID, policy.Version, policy.Generation, policy.Revision = p.ID, p.Version, p.Generation, p.Revision
	policy.Retention = p.Retention.retention()
	policy.Created, policy.Updated, policy.UpdatedBy = fromMS(p.Created), fromMS(p.Updated), p.UpdatedBy
	for i := range min(len(policy.Also), len(p.Also)) {
		policy.Also[i].Retention = p.Also[i].retention()
	}
	return policy, nil
}
