package rules

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// Bounds of evidence.
const (
	MaxEvidence = 64   // items of one policy
	MaxPoints   = 1000 // of one item, and the largest limit of a rule of points: a log keeps one entry for each charge
)

// Evidence is one item of a policy with evidence: what a request is charged for, and how many points.
// A policy sums the points of all its items in one log, and refuses a key while they reach a limit.
type Evidence struct {
	// Points are charged to the key; negative ones take back what was charged for Forgives.
	Points int
	// Outcome is the outcome whose reports are charged, "" if checks are.
	Outcome string
	// When is what a request has to meet; the zero value for every request.
	When conditions.When
	// Distinct is the name of a value of which each different one is charged at most once within the
	// longest window, "" to charge every request.
	Distinct string
	// Forgives is the outcome whose charges negative points take back, "" for positive ones. Never are
	// there fewer than no points, and what was charged for other things stays.
	Forgives string
	// item is the number under which the log keeps it: that of its text without the points, so that it
	// stays the same when the policy changes.
	item uint32
}

// Items is the evidence of a policy.
type Items []Evidence

// The words of an item, besides the names of the attributes of a request.
const (
	wordPoints   = "points"
	wordOutcome  = "outcome"
	wordForgives = "forgives"
	wordNot      = "not"
)

// ParseEvidence parses items such as "20 path @secrets /backup*", "2 outcome not_found distinct path",
// "5 agent @scanners", "-6 outcome login_ok forgives login_failed". The error is a *FieldError.
func ParseEvidence(texts []string) (Items, error) {
	var items Items
	for i, text := range texts {
		e, err := parseEvidence(text)
		if err != nil {
			return nil, &FieldError{fmt.Sprintf("evidence[%d]", i), err.Error()}
		}
		items = append(items, e)
	}
	items.number()
	return items, nil
}

// number gives each item its number. If two have the same, the later one gets the next.
func (all Items) number() {
	taken := map[uint32]bool{}
	for i := range all {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(all[i].what()))
		n := hash.Sum32() & algorithms.MaxItem
		for taken[n] {
			n = (n + 1) & algorithms.MaxItem
		}
		taken[n], all[i].item = true, n
	}
}

func parseEvidence(text string) (e Evidence, err error) {
	words, err := splitQuoted(text)
	if err != nil {
		return e, err
	}
	if len(words) == 0 {
		return e, errors.New("is empty; write for example 2 outcome not_found distinct path")
	}
	if e.Points, err = strconv.Atoi(words[0]); err != nil || e.Points == 0 || max(e.Points, -e.Points) > MaxPoints {
		return e, fmt.Errorf("must begin with points, a whole number from 1 to %d, or below zero to forgive; it begins with %q", MaxPoints, clip(words[0]))
	}
	words = words[1:]
	if len(words) > 0 && (words[0] == wordPoints || words[0] == "point") {
		words = words[1:]
	}
	patterns := conditions.Texts{}
	for len(words) > 0 {
		word := words[0]
		_, notAttribute := conditions.ParseAttribute(word)
		named := map[string]*string{wordOutcome: &e.Outcome, distinctWord: &e.Distinct, wordForgives: &e.Forgives}[word]
		switch n := patternCount(word, words[1:]); {
		case named != nil && len(words) < 2:
			return e, fmt.Errorf("has no name after %s", word)
		case named != nil && *named != "":
			return e, fmt.Errorf("says %s twice", word)
		case named != nil:
			*named, words = words[1], words[2:]
		case notAttribute != nil:
			return e, fmt.Errorf("has %q, where %s, outcome, distinct or forgives is expected", clip(word), conditions.AttributeSyntax)
		case patterns[word] != nil:
			return e, fmt.Errorf("says %s twice; write all its patterns one after the other", word)
		case n == 0:
			return e, fmt.Errorf("has no pattern after %s", word)
		default:
			patterns[word], words = joinNot(words[1:n+1]), words[n+1:]
		}
	}
	if e.When, err = conditions.Parse(patterns); err != nil {
		var wrong *conditions.Error
		if errors.As(err, &wrong) {
			return e, fmt.Errorf("has a pattern of the %s that %s", strings.TrimPrefix(wrong.Field, "when."), wrong.Problem)
		}
		return e, err
	}
	return e, e.check()
}

func (e *Evidence) check() error {
	switch {
	case e.Outcome != "" && conditions.CheckOutcome(e.Outcome) != nil:
		return fmt.Errorf("has an outcome that %w", conditions.CheckOutcome(e.Outcome))
	case e.Distinct != "" && conditions.CheckValueName(e.Distinct) != nil:
		return fmt.Errorf("has a value after distinct that %w", conditions.CheckValueName(e.Distinct))
	case e.Points < 0 && e.Forgives == "":
		return errors.New("takes points back and does not say of which outcome; write for example -6 outcome login_ok forgives login_failed")
	case e.Points > 0 && e.Forgives != "":
		return errors.New("forgives, which needs points below zero")
	case e.Points < 0 && e.Outcome == "":
		return errors.New("takes points back for requests; only a reported outcome can, or everybody would be forgiven by asking")
	case e.Points < 0 && e.Distinct != "":
		return errors.New("takes points back, which distinct has no meaning for")
	case e.Forgives != "" && conditions.CheckOutcome(e.Forgives) != nil:
		return fmt.Errorf("forgives an outcome that %w", conditions.CheckOutcome(e.Forgives))
	case e.Outcome == "" && e.When.IsZero() && e.Distinct == "":
		return errors.New("charges every request the same; say for what: " + conditions.AttributeSyntax + ", outcome or distinct")
	}
	return nil
}

func isEvidenceWord(word string) bool {
	_, err := conditions.ParseAttribute(word)
	return word == wordOutcome || word == distinctWord || word == wordForgives || err == nil
}

// patternCount returns how many words after an attribute precede the next word of an item. Directly
// after one, the name of an attribute that earlier versions did not know is a pattern, as it was.
func patternCount(attribute string, words []string) int {
	for i, word := range words {
		isFirst := i == 0 && attribute != wordOutcome || i > 0 && words[i-1] == wordNot
		if isEvidenceWord(word) && !(isFirst && slices.Contains(conditions.Names()[4:], word)) {
			return i
		}
	}
	return len(words)
}

// joinNot joins "not" and the pattern after it.
func joinNot(words []string) (patterns []string) {
	bare := func(word string) string { return strings.TrimPrefix(word, string(rune(quotedMark))) }
	for i := 0; i < len(words); i++ {
		if words[i] == wordNot && i+1 < len(words) {
			patterns = append(patterns, words[i]+" "+bare(words[i+1]))
			i++
			continue
		}
		patterns = append(patterns, bare(words[i]))
	}
	return patterns
}

// quotedMark begins a word that was written in quotes, and so is a pattern whatever it says.
const quotedMark = 0

// splitQuoted splits a text at spaces outside double quotes, for which it puts a quotedMark before the word.
func splitQuoted(text string) (words []string, err error) {
	var word strings.Builder
	isQuoted, isWord := false, false
	for _, c := range text {
		switch {
		case c == '"':
			if isQuoted, isWord = !isQuoted, true; isQuoted && word.Len() == 0 {
				word.WriteByte(quotedMark)
			}
		case (c == ' ' || c == '\t') && !isQuoted:
			if isWord {
				words = append(words, word.String())
				word.Reset()
			}
			isWord = false
		default:
			word.WriteRune(c)
			isWord = true
		}
	}
	if isQuoted {
		return nil, errors.New("has an opening quote and no closing one")
	}
	if isWord {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted returns a pattern as it is written in an item.
func quoted(pattern string) string {
	prefix := ""
	if rest, isNot := strings.CutPrefix(pattern, wordNot+" "); isNot {
		prefix, pattern = wordNot+" ", rest
	}
	if strings.ContainsAny(pattern, " \t") || isEvidenceWord(pattern) || pattern == wordNot {
		return prefix + `"` + pattern + `"`
	}
	return prefix + pattern
}

// String returns the canonical form, which ParseEvidence accepts.
func (e *Evidence) String() string { return strconv.Itoa(e.Points) + " " + e.what() }

// what returns the canonical form without the points.
func (e *Evidence) what() string {
	var parts []string
	if e.Outcome != "" {
		parts = append(parts, wordOutcome, e.Outcome)
	}
	for _, a := range e.When.Attributes() {
		parts = append(parts, a.String())
		for _, p := range e.When.Texts(a) {
			parts = append(parts, quoted(p))
		}
	}
	if e.Distinct != "" {
		parts = append(parts, distinctWord, e.Distinct)
	}
	if e.Forgives != "" {
		parts = append(parts, wordForgives, e.Forgives)
	}
	return strings.Join(parts, " ")
}

// Strings returns the canonical form of each, nil for none.
func (all Items) Strings() []string {
	var texts []string
	for i := range all {
		texts = append(texts, all[i].String())
	}
	return texts
}

// Label says in a few words what an item is charged for: "not found, each path once", "the path is in
// the list secrets".
func (e *Evidence) Label() string {
	var parts []string
	if e.Outcome != "" {
		parts = append(parts, strings.ReplaceAll(e.Outcome, "_", " "))
	}
	if when := strings.TrimPrefix(e.When.Describe(), "if "); when != "" {
		parts = append(parts, when)
	}
	if e.Distinct != "" {
		parts = append(parts, "each "+e.Distinct+" once")
	}
	return strings.Join(parts, ", ")
}

// HasEvidence reports whether the policy sums points of evidence.
func (p *Policy) HasEvidence() bool { return len(p.Evidence) > 0 }

// CountsOutcome reports whether reports of an outcome charge the policy.
func (p *Policy) CountsOutcome(outcome string) bool {
	return p.Outcome == outcome && outcome != "" || slices.ContainsFunc(p.Evidence, func(e Evidence) bool { return e.Outcome == outcome && outcome != "" })
}

// Charge is an item of evidence that a request is charged for under a policy.
type Charge struct {
	Policy *Policy
	Item   *Evidence
	// Counted is the key that the policy counts, nil for that of the request.
	Counted *keys.Key
}

// Tags returns the tags of the charges in the log, for a request that has value under the name of
// Item.Distinct: one for points, and one for each item whose charges are taken back.
func (c Charge) Tags(value uint64) (tags []algorithms.Tag) {
	if c.Item.Points > 0 {
		return []algorithms.Tag{algorithms.TagOf(c.Item.item, value)}
	}
	for _, other := range c.Policy.Evidence {
		if other.Outcome == c.Item.Forgives && other.Points > 0 {
			tags = append(tags, algorithms.Forgive(other.item))
		}
	}
	return tags
}

// Charged is one charge of a log.
type Charged struct {
	Policy  *Policy   // or its part that limits Derived
	Derived *keys.Key // the further key of the request, or that of its bot; nil for its own
	Item    *Evidence
	Tag     algorithms.Tag
}

// Amount returns the points of the charge without their sign.
func (c Charged) Amount() int { return c.Item.Amount() }

// EachCharged calls do for each log that charges of a request r of k concern: those of the key, and
// those of the further keys of their policies. hash hashes values. It returns the name of a value that
// an item would have charged but that the request does not say, "" for none.
func (s *Selector) EachCharged(charges []Charge, k keys.Key, r *conditions.Request, values map[string]string, hash func(string) uint64, do func(Charged)) (unsaid string) {
	for _, charge := range charges {
		value, said := charge.Item.ValueOf(k, r, values)
		if !said {
			unsaid = charge.Item.Distinct
			continue
		}
		hashed := uint64(0)
		if value != "" {
			hashed = hash(value)
		}
		for _, tag := range charge.Tags(hashed) {
			do(Charged{charge.Policy, charge.Counted, charge.Item, tag})
			for _, part := range s.DerivedOf(charge.Policy) {
				if key, found := part.Derived.KeyOf(k, r, values); found {
					do(Charged{part, &key, charge.Item, tag})
				}
			}
		}
	}
	return unsaid
}

// Amount returns the points without their sign.
func (e *Evidence) Amount() int { return max(e.Points, -e.Points) }

// evidenceIndex finds the items that a check is charged for.
type evidenceIndex struct {
	charges []Charge // of checks, with conditions, in the order of the index
	met     *conditions.Index
	always  []Charge // of checks, without conditions
}

func (x *evidenceIndex) add(p *Policy) {
	for i := range p.Evidence {
		switch e := &p.Evidence[i]; {
		case e.Outcome != "":
		case e.When.IsZero():
			x.always = append(x.always, Charge{p, e, nil})
		default:
			x.charges = append(x.charges, Charge{p, e, nil})
		}
	}
}

func (x *evidenceIndex) compile() {
	if len(x.charges) == 0 {
		return
	}
	whens := make([]conditions.When, len(x.charges))
	for i, c := range x.charges {
		whens[i] = c.Item.When
	}
	x.met = conditions.NewIndex(whens)
}

// AppendEvidence appends what a check of who is charged for, enforcing and shadow. r may be nil for an
// unknown request, which is charged for nothing.
func (s *Selector) AppendEvidence(all []Charge, who Subject, r *conditions.Request) []Charge {
	if who.IsShared() {
		return all
	}
	return s.AppendEvidenceFor(all, nil, r, func(p *Policy) bool { return p.Matches(who) })
}

// AppendEvidenceFor appends what a check is charged for under a key by the policies for which applies is
// true; counted nil is the key of the check.
func (s *Selector) AppendEvidenceFor(all []Charge, counted *keys.Key, r *conditions.Request, applies func(*Policy) bool) []Charge {
	if r == nil {
		return all
	}
	add := func(c Charge) {
		if applies(c.Policy) {
			all = append(all, Charge{c.Policy, c.Item, counted})
		}
	}
	s.evidence.met.Find(r, func(i int) { add(s.evidence.charges[i]) })
	for _, c := range s.evidence.always {
		add(c)
	}
	return all
}

// WithoutLinks removes from charges, in place, those for the path: anybody can have a crawler ask for one, by a link.
func WithoutLinks(all []Charge) []Charge {
	return slices.DeleteFunc(all, func(c Charge) bool { return slices.Contains(c.Item.When.Attributes(), conditions.Path) })
}

// AppendReportedEvidence appends what a report of an outcome is charged for under p and a key, nil for
// that of the report. r may be nil.
func (p *Policy) AppendReportedEvidence(all []Charge, counted *keys.Key, outcome string, r *conditions.Request) []Charge {
	for i := range p.Evidence {
		e := &p.Evidence[i]
		if e.Outcome == outcome && (e.When.IsZero() || r != nil && e.When.Meets(r)) {
			all = append(all, Charge{p, e, counted})
		}
	}
	return all
}

// EvidenceSum is what was charged for one item.
type EvidenceSum struct {
	Label  string
	Times  int
	Points int64
}

// LabelOf says what a charge was for.
func (all Items) LabelOf(c algorithms.Charge) string {
	if at := slices.IndexFunc(all, func(e Evidence) bool { return e.item == c.Item }); at >= 0 {
		return all[at].Label()
	}
	return "what an earlier version of the policy counted"
}

// Sums returns what charges say, the most points first. What was charged for items that the policy no
// longer has is one sum.
func (all Items) Sums(charges []algorithms.Charge) []EvidenceSum {
	byItem := map[uint32]*EvidenceSum{}
	var sums []*EvidenceSum
	for _, c := range charges {
		sum := byItem[c.Item]
		if sum == nil {
			sum = &EvidenceSum{Label: all.LabelOf(c)}
			byItem[c.Item], sums = sum, append(sums, sum)
		}
		sum.Times++
		sum.Points += c.Points
	}
	slices.SortStableFunc(sums, func(a, b *EvidenceSum) int { return cmp.Compare(b.Points, a.Points) })
	plain := make([]EvidenceSum, len(sums))
	for i, s := range sums {
		plain[i] = *s
	}
	return plain
}

// ExplainPoints says in a sentence why a key has as many points as the rule allows: "20 of 20 points in
// 1 hour: the path is in the list consoles (10), not found, each path once, 3 times (6), ...".
func (p *Policy) ExplainPoints(r Rule, charges []algorithms.Charge, now int64) string {
	var within []algorithms.Charge
	total := int64(0)
	for _, c := range charges {
		if c.At+r.WindowMS() > now {
			within, total = append(within, c), total+c.Points
		}
	}
	var parts []string
	for _, sum := range p.Evidence.Sums(within) {
		times := ""
		if sum.Times > 1 {
			times = fmt.Sprintf(", %d times", sum.Times)
		}
		parts = append(parts, fmt.Sprintf("%s%s (%d)", sum.Label, times, sum.Points))
	}
	text := fmt.Sprintf("%d of %d points in %s", total, r.Limit, inWords(r.Window))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, "; ")
	}
	return text + "."
}

// describeEvidence says in a sentence what a policy with evidence does.
func (p *Policy) describeEvidence() string {
	parts := make([]string, len(p.Evidence))
	for i := range p.Evidence {
		e := &p.Evidence[i]
		switch {
		case e.Points < 0:
			parts[i] = fmt.Sprintf("%s takes back up to %d of %s", e.Label(), -e.Points, strings.ReplaceAll(e.Forgives, "_", " "))
		default:
			parts[i] = fmt.Sprintf("%d for %s", e.Points, e.Label())
		}
	}
	checks := "every check of the key is"
	if p.Scope != "" {
		checks = "the checks of the key in the scope " + p.Scope + " are"
	}
	return "Sums points of what the requests of a key show: " + strings.Join(parts, "; ") + ". While they reach a limit, " + checks + " refused, in addition to the key's own policy."
}

// ValueOf returns the value of a request r of k of which each different one is charged once; for an
// item that charges every request, "". It returns false if the request does not say it.
func (e *Evidence) ValueOf(k keys.Key, r *conditions.Request, values map[string]string) (value string, said bool) {
	if e.Distinct == "" {
		return "", true
	}
	value = valueOf(e.Distinct, k, r, values)
	return value, value != ""
}

// HasEvidence reports whether checks may be charged for what they show.
func (s *Selector) HasEvidence() bool { return s.evidence.met != nil || len(s.evidence.always) > 0 }

func (p *Policy) validateEvidence() error {
	points := p.Rules.CountsPoints() || slices.ContainsFunc(p.Also, func(d Derived) bool { return d.Rules.CountsPoints() })
	if !p.HasEvidence() {
		if points || p.Algorithm == algorithms.PointLog {
			return &FieldError{"evidence", "is missing: the rules count points, and evidence says for what a request gets them, for example 2 outcome not_found distinct path"}
		}
		return nil
	}
	switch {
	case len(p.Evidence) > MaxEvidence:
		return &FieldError{"evidence", fmt.Sprintf("has %d items; the most is %d", len(p.Evidence), MaxEvidence)}
	case len(p.Rules) == 0 || !p.Rules.CountsPoints():
		return &FieldError{"rules", "must count points beside evidence, for example 20 points/1h"}
	case p.Outcome != "" || !p.When.IsZero():
		return &FieldError{"evidence", "has conditions and outcomes of its own; leave out when and outcome"}
	case p.Algorithm != algorithms.PointLog:
		return &FieldError{"algorithm", "must be " + algorithms.PointLog + " beside evidence, or be omitted"}
	case slices.ContainsFunc(p.Also, func(d Derived) bool { return len(d.Rules) > 0 && !d.Rules.CountsPoints() }):
		return &FieldError{"also", "must count points beside evidence, for example net:/24 100 points/1d"}
	}
	seen := map[string]int{}
	for i := range p.Evidence {
		e := &p.Evidence[i]
		if at, twice := seen[e.what()]; twice {
			return &FieldError{fmt.Sprintf("evidence[%d]", i), fmt.Sprintf("is about the same as evidence[%d]; give one of them the points of both", at)}
		}
		if seen[e.what()] = i; e.Points < 0 && !slices.ContainsFunc(p.Evidence, func(o Evidence) bool { return o.Points > 0 && o.Outcome == e.Forgives }) {
			return &FieldError{fmt.Sprintf("evidence[%d]", i), "forgives " + e.Forgives + ", for which no other item gives points"}
		}
	}
	return nil
}
