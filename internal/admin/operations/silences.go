package operations

import (
	"context"
	"fmt"
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
// silenced and never sent. Only an admin silences everything, or all alarms of an attack or
// of a fault: operators could hide it from everybody else.
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
		return s, fault.NoSuch("channel", "there is no channel of that name; leave it empty for all")
	}
	added, err := n.Channels.AddSilence(ctx, by.Actor, s, func(active []notify.Silence) error {
		if by.May(identity.Admin) {
			return nil
		}
		if s.CoversEverything() {
			return &fault.Error{Code: fault.Forbidden, Field: "kind", Message: "choose one kind or one channel; only an admin silences everything"}
		}
		if lost := lostAlarms(channels, active, s, now); lost != nil {
			return &fault.Error{Code: fault.Forbidden, Field: "kind", Message: fmt.Sprintf(
				"would leave no alarm of %s that is still sent (%s); only an admin silences all of these", lost.about, join(lost.kinds))}
		}
		return nil
	})
	n.changed(ctx, err)
	return added, err
}

// alarm is a group of kinds of notification about one thing.
type alarm struct {
	about string
	kinds []notify.Kind
}

// alarms are what operators cannot silence as a whole. Every kind is in one of them but those
// that report that all is well, or what has passed.
var alarms = []alarm{
	{"an attack", []notify.Kind{notify.AutomaticBlock, notify.Proposal, notify.EscalationPaused}},
	{"a fault", []notify.Kind{notify.Outage, notify.RedisEviction, notify.JobFailed}},
}

// lostAlarms returns an alarm of which nothing would be sent any more at some time before more
// ends, though something is sent then without it; nil for none. Other silences may end earlier:
// what is silent now by one of them would not become audible again.
func lostAlarms(channels []Channel, active []notify.Silence, more notify.Silence, now time.Time) *alarm {
	with := append(slices.Clone(active), more)
	for i := range alarms {
		lost := func(at time.Time) bool {
			return !alarms[i].isSent(channels, with, at) && alarms[i].isSent(channels, active, at)
		}
		if lost(now) || slices.ContainsFunc(active, func(s notify.Silence) bool { return s.Until.Before(more.Until) && lost(s.Until) }) {
			return &alarms[i]
		}
	}
	return nil
}

// isSent reports whether an enabled channel sends any of the kinds in spite of silences.
func (a *alarm) isSent(channels []Channel, silences []notify.Silence, at time.Time) bool {
	for _, c := range channels {
		for _, k := range a.kinds {
			if !c.Disabled && c.Takes(k) && !slices.ContainsFunc(silences, func(s notify.Silence) bool { return s.Silences(c.Name, k, at) }) {
				return true
			}
		}
	}
	return false
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
	ended, err := n.Channels.EndSilence(ctx, by.Actor, id, func(s notify.Silence) error {
		if !by.May(AccessToEndSilence(s)) {
			return fault.New(fault.Forbidden, "Only an admin ends a silence of everything. It still applies.")
		}
		return nil
	})
	n.changed(ctx, err)
	return ended, err
}
