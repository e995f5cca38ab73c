package api

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

// fromEscalationStatus returns the escalation status of a key as the API shows it, nil for
// none.
func fromEscalationStatus(s *offences.EscalationStatus) *wire.EscalationStatus {
	if s == nil {
		return nil
	}
	return &wire.EscalationStatus{
		Policy: s.Policy, Shadow: s.Shadow, Level: s.Level, Levels: s.Levels, Count: s.Count, Threshold: s.Threshold,
		Window: wire.Duration(s.Window), NextBlock: wire.Duration(s.Next), DecaysAt: wire.At(s.DecaysAt), Paused: s.Paused,
	}
}

// fromOffender returns one row as the API shows it; name returns the name of a policy.
func fromOffender(r *offences.Offender, name func(int64) string, now time.Time) wire.Offender {
	o := wire.Offender{
		Key: r.Key, Offences: r.Offences, OffencesMax: r.Offences + r.Overcount, Allowed: r.Allowed, RefusedRatio: r.Ratio,
		Policy: wire.NullString(name(r.Policy)), Decision: r.Kind.String(), RefusedBy: r.RefusedBy,
		FirstAt: wire.At(r.First), LastAt: wire.At(r.Last), Escalation: fromEscalationStatus(r.Escalation), Trend: r.Trend,
	}
	o.BlockedScopes = r.BlockedScopes
	o.Plan, o.OwnLimit = wire.NullString(r.Plan), fromOwnLimit(r.OwnLimit, true)
	o.Block, o.Exemption = activeEntry(r.Block, name, now), activeEntry(r.Exemption, name, now)
	return o
}

func activeEntry(e *blocks.Entry, name func(int64) string, now time.Time) *wire.Entry {
	if e == nil {
		return nil
	}
	shown := fromEntry(e, name(e.PolicyID), now)
	return &shown
}

// fromEscalationEvent returns an event as the API shows it.
func fromEscalationEvent(e offences.EscalationEvent) wire.EscalationEvent {
	return wire.EscalationEvent{
		ID: e.ID, At: wire.At(e.At), Kind: string(e.Kind), Policy: e.Name, Key: wire.NullString(e.Key), Level: e.Level,
		Offences: e.Offences, Length: wire.Duration(e.Length), BlockID: wire.NullString(e.BlockID), Detail: e.Detail,
	}
}

// fromOffences returns counted refusals as the API shows them.
func fromOffences(all []offences.Offence) []wire.Offence {
	shown := make([]wire.Offence, 0, len(all))
	for _, o := range all {
		shown = append(shown, wire.Offence{
			Decision: o.Kind.String(), RefusedBy: o.RefusedBy, Count: o.Count, CountMax: o.Count + o.Overcount,
			First: fromRefusal(o.First), Last: fromRefusal(o.Last),
		})
	}
	return shown
}

func fromRefusal(r offences.Refusal) wire.Refused {
	meta := r.Meta
	if meta == nil {
		meta = map[string]string{}
	}
	out := wire.Refused{At: atMS(r.At), BoundaryAt: atMS(r.Boundary), RetryAt: atMS(r.RetryAt), Source: wire.NullString(r.Source), Meta: meta}
	for _, m := range r.Met {
		out.Met = append(out.Met, wire.MetCondition(m))
	}
	return out
}

func atMS(ms int64) wire.Time {
	if ms == 0 {
		return wire.Time{}
	}
	return wire.At(time.UnixMilli(ms))
}

// fromProposal returns a proposal as the API shows it.
func fromProposal(p *offences.Proposal) wire.Proposal {
	state := string(p.Decision)
	if p.Decision == offences.Open {
		state = "open"
	}
	e := p.Evidence
	exempt := e.Exempt
	if exempt == nil {
		exempt = []string{}
	}
	return wire.Proposal{
		ID: p.ID, Pattern: p.Pattern.String(), State: state, CreatedAt: wire.At(p.Created), UpdatedAt: wire.At(p.Updated),
		DecidedAt: wire.At(p.Decided), DecidedBy: wire.NullString(p.DecidedBy), Reason: wire.NullString(p.Reason), BlockID: wire.NullString(p.BlockID),
		Evidence: wire.Evidence{
			From: wire.At(e.From), To: wire.At(e.To), Size: e.Size, OffendedCount: e.OffendedCount, MinOffences: e.MinOffences, Refused: e.Refused, Checked: e.Checked, Offences: e.Offences,
			SeenCount: e.SeenCount, Allowed: e.Allowed, Offended: fromSeen(e.Offended), Seen: fromSeen(e.Seen), Exempt: exempt, Requests: fromRequests(e.Requests),
		},
	}
}

func fromRequests(all []offences.BlockRequest) []wire.BlockRequest {
	shown := make([]wire.BlockRequest, 0, len(all))
	for _, r := range all {
		shown = append(shown, wire.BlockRequest{Source: r.Source, Author: r.Author, Reason: r.Reason, ConfirmReason: r.ConfirmReason, ExpiresAt: wire.At(r.Expires)})
	}
	return shown
}

func fromSeen(all []offences.SeenKey) []wire.SeenKey {
	shown := make([]wire.SeenKey, 0, len(all))
	for _, k := range all {
		shown = append(shown, wire.SeenKey{Key: k.Key, Allowed: k.Allowed, Refused: k.Refused})
	}
	return shown
}
