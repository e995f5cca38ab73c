package rules_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

func goodPolicy(t testing.TB) *rules.Policy {
	return &rules.Policy{
		ID: 1, Name: "default", Match: patterns(t, "*"), Rules: mustStack(t, "1/s 20/m"),
		Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog,
		Escalation: &rules.Escalation{Threshold: 10, Window: time.Minute, Duration: time.Hour, Factor: 2, MaxDuration: 24 * time.Hour, DecayAfter: time.Hour},
	}
}

func patterns(t testing.TB, texts ...string) (all []keys.Pattern) {
	t.Helper()
	for _, text := range texts {
		p, err := keys.Parser{}.Pattern(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestPolicyFaultNamesTheFirstBadField(t *testing.T) {
	if err := goodPolicy(t).Validate(); err != nil {
		t.Fatalf("the good policy is refused: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*rules.Policy)
		field  string
	}{
		"no name":                        {func(p *rules.Policy) { p.Name = "" }, "name"},
		"a name with a slash":            {func(p *rules.Policy) { p.Name = "a/b" }, "name"},
		"a name with a new line":         {func(p *rules.Policy) { p.Name = "a\n" }, "name"},
		"no pattern":                     {func(p *rules.Policy) { p.Match = nil }, "match"},
		"a pattern twice":                {func(p *rules.Policy) { p.Match = patterns(t, "ip:10.0.0.1", "ip:10.0.0.1/32") }, "match[1]"},
		"the zero pattern":               {func(p *rules.Policy) { p.Match = append(p.Match, keys.Pattern{}) }, "match[1]"},
		"a rule out of bounds":           {func(p *rules.Policy) { p.Rules = rules.Stack{{Limit: -1, Window: time.Second}} }, "rules"},
		"an unknown mode":                {func(p *rules.Policy) { p.Mode = "on" }, "mode"},
		"an unknown failure mode":        {func(p *rules.Policy) { p.OnFailure = "" }, "on_failure"},
		"an unknown algorithm":           {func(p *rules.Policy) { p.Algorithm = "guess" }, "algorithm"},
		"no threshold":                   {func(p *rules.Policy) { p.Escalation.Threshold = 0 }, "escalation.threshold"},
		"a window with part of a minute": {func(p *rules.Policy) { p.Escalation.Window = 90 * time.Second }, "escalation.window"},
		"no duration of a block":         {func(p *rules.Policy) { p.Escalation.Duration = 0 }, "escalation.duration"},
		"a factor that shrinks":          {func(p *rules.Policy) { p.Escalation.Factor = 0.5 }, "escalation.factor"},
		"a factor that is NaN":           {func(p *rules.Policy) { p.Escalation.Factor = math.NaN() }, "escalation.factor"},
		"a maximum below the duration":   {func(p *rules.Policy) { p.Escalation.MaxDuration = time.Minute }, "escalation.max_duration"},
		"no decay":                       {func(p *rules.Policy) { p.Escalation.DecayAfter = 0 }, "escalation.decay_after"},
	} {
		t.Run(name, func(t *testing.T) {
			p := goodPolicy(t)
			c.change(p)
			var wrong *rules.FieldError
			if err := p.Validate(); !errors.As(err, &wrong) || wrong.Field != c.field {
				t.Errorf("Validate returns %v, want a *FieldError for %s", err, c.field)
			}
		})
	}
}

func TestRetentionCoversTheLargerOfBothBounds(t *testing.T) {
	before := rules.Retention{Entries: 800, Window: time.Minute}
	got := before.Cover(mustStack(t, "20/m 200/h"))
	if want := (rules.Retention{Entries: 800, Window: time.Hour}); got != want {
		t.Errorf("Cover: got %+v, want %+v", got, want)
	}
}
