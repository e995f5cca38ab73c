package operations

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/wire"
)

const maxSilence = 30 * 24 * time.Hour

// Silences returns the active silences, the first to end first.
func (n *Notifications) Silences(ctx context.Context, _ admin.Caller, _ wire.None) (wire.Page[wire.Silence], error) {
	all, err := n.Channels.FindSilences(ctx)
	return wire.WholePage(all, wireSilence), err
}

func wireSilence(s Silence) wire.Silence {
	return wire.Silence{
		ID: s.ID, Channel: s.Channel, Kind: string(s.Kind), Reason: s.Reason, Author: s.Author, CreatedAt: wire.At(s.Created), ExpiresAt: wire.At(s.Until),
	}
}

// ActiveSilences returns the active silences that this node knows, without querying the
// database.
func (n *Notifications) ActiveSilences() []Silence {
	if n.Notifier == nil {
		return nil
	}
	return n.Notifier.Silences()
}

// AddSilence silences notifications until a time. Notifications during that time are listed as
// silenced and never sent. Only an admin can silence everything, or all alarms about an attack
// or a fault: otherwise an operator could hide it from everybody else.
func (n *Notifications) AddSilence(ctx context.Context, by admin.Caller, r wire.SilenceRequest) (none wire.Silence, err error) {
	s := notify.Silence{Channel: r.Channel, Kind: notify.Kind(r.Kind), Reason: strings.TrimSpace(r.Reason)}
	if s.Kind != "" && !slices.Contains(notify.Kinds(), s.Kind) {
		return none, fault.Field("kind", "must be one of %s, or empty for all", join(notify.Kinds()))
	}
	if s.Reason == "" {
		return none, fault.Field("reason", "is empty; say why, for all who see the pages")
	}
	if err := fault.CheckLine("reason", s.Reason, 200); err != nil {
		return none, err
	}
	now := n.Now()
	until, err := admin.ExpiryOf(r.ExpiresIn, r.ExpiresAt).At(now)
	if err != nil {
		return none, err
	}
	if until.IsZero() || until.Sub(now) > maxSilence {
		return none, fault.Field("expires_in", "must end within 30 days; a channel that is not needed can be disabled")
	}
	s.Until = until.UTC().Truncate(time.Millisecond)
	channels, err := n.AllChannels(ctx)
	if err != nil {
		return none, err
	}
	if s.Channel != "" && !slices.ContainsFunc(channels, func(c Channel) bool { return c.Name == s.Channel }) {
		return none, fault.NoSuch("channel", "there is no channel of that name; leave it empty for all")
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
	return wireSilence(added), err
}

// alarm is a group of kinds of notifications about one subject.
type alarm struct {
	about string
	kinds []notify.Kind
}

// alarms are the groups that operators cannot silence as a whole. Every kind is in a group,
// except those that report that all is well or that something has ended.
var alarms = []alarm{
	{"an attack", []notify.Kind{notify.AttackBegan, notify.AttackSource, notify.AutomaticBlock, notify.Proposal, notify.EscalationPaused}},
	{"a fault", []notify.Kind{notify.Outage, notify.RedisEviction, notify.JobFailed}},
}

// lostAlarms returns an alarm of which nothing would be sent at some time before more ends,
// although without more something would be; nil for none. Other silences may end earlier: a
// kind that one of them silences now would not be sent again when it ends.
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

// isSent reports whether an enabled channel sends any of the kinds despite the silences.
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

// AccessToEndSilence returns the access that ending a silence needs. A silence of everything is
// an admin's decision, so only an admin can end it.
func AccessToEndSilence(s Silence) identity.Access {
	if s.CoversEverything() {
		return identity.Admin
	}
	return identity.Operate
}

// EndSilence ends a silence early.
func (n *Notifications) EndSilence(ctx context.Context, by admin.Caller, r wire.ByID) (wire.None, error) {
	_, err := n.Channels.EndSilence(ctx, by.Actor, r.ID, func(s notify.Silence) error {
		if !by.May(AccessToEndSilence(s)) {
			return fault.New(fault.Forbidden, "Only an admin ends a silence of everything. It still applies.")
		}
		return nil
	})
	n.changed(ctx, err)
	return wire.None{}, err
}
