package rules

import (
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/wire"
)

// The condition "attack" is about the time and not about the request, so that conditions.When does not
// have it.
const (
	attackCondition = "attack"
	attackOn        = "on"
)

// ReadWhen reads the conditions of a document into p.
func (p *Policy) ReadWhen(w wire.PolicyWhen) (err error) {
	texts := w.Texts()
	if p.InAttack, err = takeAttack(texts[attackCondition]); err != nil {
		return err
	}
	delete(texts, attackCondition)
	p.When, err = conditions.Parse(texts)
	return err
}

func takeAttack(texts []string) (bool, error) {
	switch {
	case len(texts) == 0:
		return false, nil
	case len(texts) == 1 && texts[0] == attackOn:
		return true, nil
	}
	return false, &conditions.Error{Field: "when." + attackCondition, Problem: "must be on: the policy then applies only while an attack goes on"}
}

// WhenDocument returns the conditions as a document has them.
func (p *Policy) WhenDocument() wire.PolicyWhen {
	w := wire.WhenOf(p.When.All())
	if p.InAttack {
		w.Attack = []string{attackOn}
	}
	return w
}

// validateInAttack refuses what would go on after the attack or be counted before it.
func (p *Policy) validateInAttack() error {
	if !p.InAttack {
		return nil
	}
	const field = "when." + attackCondition
	switch {
	case p.Escalation != nil || p.OnLimit == BlockOnLimit:
		return &FieldError{field, "cannot be combined with an escalation or on_limit block: blocks would outlast the attack, and go on refusing"}
	case p.Outcome != "":
		return &FieldError{field, "cannot be combined with outcome: reports from before the attack would be missing"}
	case p.HasEvidence():
		return &FieldError{field, "cannot be combined with evidence: points from before the attack would be missing"}
	}
	return nil
}

// During returns the selector for a time in which an attack goes on or not. s is the one for no attack.
func (s *Selector) During(attack bool) *Selector {
	if attack && s.attack != nil {
		return s.attack
	}
	return s
}

// InAttack returns the policies that apply only in attacks and are not off.
func (s *Selector) InAttack() []*Policy { return s.onlyAttack }

// Waits reports whether p does not apply because there is no attack.
func (s *Selector) Waits(p *Policy) bool { return p.InAttack && !s.isAttack }
