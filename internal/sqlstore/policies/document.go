package policies

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// document is the document of a policy as the row of a version and the audit log store it.
// Only the durations of its escalation are written in another form: milliseconds, which nodes of
// earlier versions read too.
type document wire.PolicyRequest

type storedEscalation struct {
	Threshold     int     `json:"threshold"`
	WindowMS      int64   `json:"window_ms"`
	DurationMS    int64   `json:"duration_ms"`
	Factor        float64 `json:"factor"`
	MaxDurationMS int64   `json:"max_duration_ms"`
	DecayAfterMS  int64   `json:"decay_after_ms"`

	ChallengeLevels int `json:"challenge_levels,omitzero"`
}

var escalationForm = json.JoinOptions(
	json.Deterministic(true),
	json.WithMarshalers(json.MarshalToFunc(func(out *jsontext.Encoder, e wire.Escalation) error {
		return json.MarshalEncode(out, storedEscalation{
			Threshold: e.Threshold, WindowMS: e.Window.Std().Milliseconds(), DurationMS: e.Duration.Std().Milliseconds(),
			Factor: e.Factor, MaxDurationMS: e.MaxDuration.Std().Milliseconds(), DecayAfterMS: e.DecayAfter.Std().Milliseconds(),
			ChallengeLevels: e.ChallengeLevels,
		})
	})),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(in *jsontext.Decoder, e *wire.Escalation) error {
		var s storedEscalation
		err := json.UnmarshalDecode(in, &s)
		*e = wire.Escalation{
			Threshold: s.Threshold, Window: milliseconds(s.WindowMS), Duration: milliseconds(s.DurationMS),
			Factor: s.Factor, MaxDuration: milliseconds(s.MaxDurationMS), DecayAfter: milliseconds(s.DecayAfterMS), ChallengeLevels: s.ChallengeLevels,
		}
		return err
	})),
)

func milliseconds(n int64) wire.Duration { return wire.Duration(n * int64(1e6)) }

// MarshalJSONTo writes d. Equal policies have equal texts.
func (d document) MarshalJSONTo(out *jsontext.Encoder) error {
	return json.MarshalEncode(out, wire.PolicyRequest(d), escalationForm)
}

func documentOf(p *rules.Policy) document { return document(p.Document()) }

func textOf(p *rules.Policy) (string, error) {
	text, err := json.Marshal(documentOf(p))
	return string(text), err
}

// parse reads the content of a version's row into p.
func (p *Stored) parse(text string) error {
	var d wire.PolicyRequest
	err := json.Unmarshal([]byte(text), &d, escalationForm)
	if err != nil {
		return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
	}
	read, err := rules.ReadDocument(&d, keys.Parser{}.Pattern)
	if err != nil {
		return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
	}
	read.ID, read.Version, read.Generation, read.Revision = p.ID, p.Version, p.Generation, p.Revision
	read.Created, read.Updated, read.UpdatedBy = p.Created, p.Updated, p.UpdatedBy
	*p.Policy = *read
	return nil
}
