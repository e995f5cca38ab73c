package policies

import (
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/rules"
)

// meaning describes a policy's rules in words and in a picture.
type meaning struct {
	*admin.PolicyExplanation
	Chart *chart.Speed // nil if there is nothing to draw
}

// figure is a part of a sentence; numbers are emphasized.
type figure struct {
	Text string
	Bold bool
}

func meaningOf(p *rules.Policy) *meaning {
	m := &meaning{PolicyExplanation: admin.ExplainPolicy(nil, p)}
	if len(m.UsedUp) > 0 {
		m.Chart = chart.DrawSpeed(p.Rules)
	}
	return m
}

// Figures splits the sentence about the limits at its numbers.
func (m *meaning) Figures() []figure {
	var all []figure
	for i, word := range strings.Split(m.Limits, " ") {
		if i > 0 {
			all = append(all, figure{Text: " "})
		}
		all = append(all, figure{word, word != "" && word[0] >= '0' && word[0] <= '9'})
	}
	return all
}
