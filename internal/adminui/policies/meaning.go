package policies

import (
	"strings"

	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// meaning says in words and in a picture what a policy's rules come to.
type meaning struct {
	Most   []figure // "At most 20 in any minute"
	Rest   string   // "At full speed ...", or what a counter does not promise; "" where there is nothing to say
	Advice string   // what would suit such rules better, "" for nothing
	Chart  *chart.Speed
}

// figure is a stretch of a sentence; figures stand out.
type figure struct {
	Text string
	Bold bool
}

func meaningOf(p *rules.Policy) *meaning {
	most, rest, cut := strings.Cut(p.Describe(), ". ")
	if cut {
		most += "."
	}
	m := &meaning{Most: figures(most), Rest: rest, Advice: adviceOf(p)}
	if a := algorithms.ByName(p.Algorithm); a == nil || a.IsLog() {
		m.Chart = chart.DrawSpeed(p.Rules)
	}
	return m
}

// figures parts a sentence at its numbers.
func figures(sentence string) []figure {
	var all []figure
	for i, word := range strings.Split(sentence, " ") {
		if i > 0 {
			all = append(all, figure{Text: " "})
		}
		all = append(all, figure{word, word != "" && word[0] >= '0' && word[0] <= '9'})
	}
	return all
}
