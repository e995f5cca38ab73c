package operations

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/notify"
)

const maxSilence = 30 * 24 * time.Hour

// AddSilence is what to silence: everything, or one channel or kind.
type AddSilence struct {
	Channel, Kind string // "" for all
	Reason        string
	Expiry        blocks.Expiry // one of both is needed
}

// Silences returns the silences that apply, the first to end first.
func (n *Notifications) Silences(ctx context.Context) ([]Silence, error) {
	return n.Channels.FindSilences(ctx)
}

// ActiveSilences returns the silences that apply as this node knows them, without asking
// the database.
func (n *Notifications) ActiveSilences() []Silence {
	if n.Notifier == nil {
		return nil
	}
	return n.Notifier.Silences()
}

// AddSilence silences notifications until a time. What happens in between is listed as
// silenced and never sent. That nothing at all is sent any more, only an admin decides:
// operators could hide an attack from everybody else.
func (n *Notifications) AddSilence(ctx context.Context, by admin.Caller, add AddSilence) (Silence, error) {
	s := notify.Silence{Channel: add.Channel, Kind: notify.Kind(add.Kind), Reason: strings.TrimSpace(add.Reason)}
	if s.Kind != "" && !slices.Contains(notify.Kinds(), s.Kind) {
		return s, fault.Field("kind", "must be one of %s, or empty for all", join(notify.Kinds()))
	}
	if s.Reason == "" {
		return s, fault.Field("reason", "is empty; say why, for all who see the pages")
	}
	if err := fault.CheckLine("reason", s.Reason, 200); err != nil {
		return s, err
	}
	now := n.Now()
	until, err := add.Expiry.At(now)
	if err != nil {
		return s, err
	}
	if until.IsZero() || until.Sub(now) > maxSilence {
		return s, fault.Field("expires_in", "must end within 30 days; a channel that is not needed can be disabled")
	}
	s.Until = until.UTC().Truncate(time.Millisecond)
	channels, err := n.ListChannels(ctx)
	if err != nil {
		return s, err
	}
	if s.Channel != "" && !slices.ContainsFunc(channels, func(c Channel) bool { return c.Name == s.Channel }) {
		return s, fault.Field("channel", "there is no channel of that name; leave it empty for all")
	}
	return n.Channels.AddSilence(ctx, by.Actor, s, func(active []notify.Silence) error {
		if by.May(identity.Admin) {
			return nil
		}
		if s.CoversEverything() {
			return &fault.Error{Code: fault.Forbidden, Field: "kind", Message: "choose one kind or one channel; only an admin silences everything"}
		}
		if leavesNothing(channels, append(active, s), now) {
			return &fault.Error{Code: fault.Forbidden, Field: "kind", Message: "leaves nothing that would still be sent; only an admin silences everything"}
		}
		return nil
	})
}

// leavesNothing reports whether silences keep everything from being sent that the enabled
// channels send.
func leavesNothing(channels []Channel, silences []notify.Silence, now time.Time) bool {
	sends := false
	for _, c := range channels {
		for _, k := range notify.Kinds() {
			if c.Disabled || !c.Takes(k) {
				continue
			}
			sends = true
			if !slices.ContainsFunc(silences, func(s notify.Silence) bool { return s.Silences(c.Name, k, now) }) {
				return false
			}
		}
	}
	return sends
}

// AccessToEndSilence returns the access that ending a silence needs: one of everything is an
// admin's decision, which only an admin takes back.
func AccessToEndSilence(s Silence) identity.Access {
	if s.CoversEverything() {
		return identity.Admin
	}
	return identity.Operate
}

// EndSilence ends a silence before its time.
func (n *Notifications) EndSilence(ctx context.Context, by admin.Caller, id string) (Silence, error) {
	return n.Channels.EndSilence(ctx, by.Actor, id, func(s notify.Silence) error {
		if !by.May(AccessToEndSilence(s)) {
			return fault.New(fault.Forbidden, "Only an admin ends a silence of everything. It still applies.")
		}
		return nil
	})
}
