package rules

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// Stored is the document of a policy as the row of a version and the audit log store it.
// Only the durations of its escalation are written in another form: milliseconds, which nodes of
// earlier versions read too.
type Stored wire.PolicyRequest

type storedEscalation struct {
	Threshold     int     `json:"threshold"`
	WindowMS      int64   `json:"window_ms"`
	DurationMS    int64   `json:"duration_ms"`
	Factor        float64 `json:"factor"`
	MaxDurationMS int64   `json:"max_duration_ms"`
	DecayAfterMS  int64   `json:"decay_after_ms"`

	ChallengeLevels int `json:"challenge_levels,omitzero"`
}

var storedForm = json.JoinOptions(
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
func (d Stored) MarshalJSONTo(out *jsontext.Encoder) error {
	return json.MarshalEncode(out, wire.PolicyRequest(d), storedForm)
}

// Stored returns the document of p as it is stored.
func (p *Policy) Stored() Stored { return Stored(p.Document()) }

// ReadStored returns the policy of a stored document, nil for the documents "" and null of no policy.
func ReadStored(text []byte) (*Policy, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var d *wire.PolicyRequest
	if err := json.Unmarshal(text, &d, storedForm); d == nil || err != nil {
		return nil, err
	}
	return ReadDocument(d, keys.Parser{}.Pattern)
}
