package policies

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// policyDocument is the content of one version of a policy, as its row and the audit log store
// it.
type policyDocument struct {
	Name       string              `json:"name"`
	Match      []string            `json:"match"`
	When       whenDocument        `json:"when,omitzero"`
	Outcome    string              `json:"outcome,omitzero"`
	Scope      string              `json:"scope,omitzero"`
	Rules      []string            `json:"rules"`
	Also       []string            `json:"also,omitzero"`
	Mode       rules.Mode          `json:"mode"`
	OnFailure  rules.OnFailure     `json:"on_failure"`
	Algorithm  string              `json:"algorithm"`
	Options    optionsDocument     `json:"options,omitzero"`
	Escalation *escalationDocument `json:"escalation"`
}

// whenDocument leaves out the attributes without conditions.
type whenDocument struct {
	Path   []string `json:"path,omitempty"`
	Method []string `json:"method,omitempty"`
	Agent  []string `json:"agent,omitempty"`
	Host   []string `json:"host,omitempty"`
}

func (d whenDocument) IsZero() bool {
	return len(d.Path)+len(d.Method)+len(d.Agent)+len(d.Host) == 0
}

// optionsDocument leaves out default values, so that a policy without options is stored as it
// was before options existed.
type optionsDocument struct {
	Burst        int    `json:"burst,omitzero"`
	CountRefused bool   `json:"count_refused,omitzero"`
	WindowStart  string `json:"window_start,omitzero"`
	Variant      string `json:"variant,omitzero"`
}

type escalationDocument struct {
	Threshold     int     `json:"threshold"`
	WindowMS      int64   `json:"window_ms"`
	DurationMS    int64   `json:"duration_ms"`
	Factor        float64 `json:"factor"`
	MaxDurationMS int64   `json:"max_duration_ms"`
	DecayAfterMS  int64   `json:"decay_after_ms"`
}

func documentOf(p *rules.Policy) policyDocument {
	d := policyDocument{
		Name: p.Name, Match: make([]string, len(p.Match)), Outcome: p.Outcome, Scope: p.Scope, Rules: p.Rules.Strings(), Also: p.Also.Strings(),
		Mode: p.Mode, OnFailure: p.OnFailure, Algorithm: p.Algorithm, Options: optionsDocument(p.Options),
		When: whenDocument{
			Path: p.When.Texts(conditions.Path), Method: p.When.Texts(conditions.Method),
			Agent: p.When.Texts(conditions.Agent), Host: p.When.Texts(conditions.Host),
		},
	}
	for i, m := range p.Match {
		d.Match[i] = m.String()
	}
	if e := p.Escalation; e != nil {
		d.Escalation = &escalationDocument{
			Threshold: e.Threshold, WindowMS: e.Window.Milliseconds(), DurationMS: e.Duration.Milliseconds(),
			Factor: e.Factor, MaxDurationMS: e.MaxDuration.Milliseconds(), DecayAfterMS: e.DecayAfter.Milliseconds(),
		}
	}
	return d
}

// text returns the canonical text of a document: equal policies have equal texts.
func (d policyDocument) text() (string, error) {
	text, err := json.Marshal(d, json.Deterministic(true))
	return string(text), err
}

// parse reads the content of a version's row into p.
func (p *Stored) parse(text string) error {
	var d policyDocument
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
	}
	p.Scope = d.Scope
	p.Name, p.Outcome, p.Mode, p.OnFailure, p.Algorithm = d.Name, d.Outcome, d.Mode, d.OnFailure, d.Algorithm
	p.Options = algorithms.Options(d.Options)
	for _, text := range d.Match {
		// A stored pattern is canonical: its meaning does not depend on settings.
		m, err := keys.Parser{}.Pattern(text)
		if err != nil {
			return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
		}
		p.Match = append(p.Match, m)
	}
	var err error
	if p.When, err = conditions.Parse([...][]string{d.When.Path, d.When.Method, d.When.Agent, d.When.Host}); err != nil {
		return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
	}
	if p.Rules, err = rules.ParseStack(d.Rules); err != nil {
		return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
	}
	if p.Also, err = rules.ParseAlso(d.Also); err != nil {
		return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
	}
	if e := d.Escalation; e != nil {
		p.Escalation = &rules.Escalation{
			Threshold: e.Threshold, Window: milliseconds(e.WindowMS), Duration: milliseconds(e.DurationMS),
			Factor: e.Factor, MaxDuration: milliseconds(e.MaxDurationMS), DecayAfter: milliseconds(e.DecayAfterMS),
		}
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
