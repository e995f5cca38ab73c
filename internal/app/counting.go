package app

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/supervise"
)

// buildCounting builds the parts that count decisions and query the counts.
func (a *App) buildCounting() {
	a.crowds = &proxies.Crowds{OnFound: a.crowdFound}
	a.recorder = recorder.NewRecorder(recorder.Options{Secret: a.secret, Node: a.id, OmitPaths: !a.settings.RecordPaths, OmitAgents: !a.settings.RecordAgents})
	a.flusher = recorder.NewFlusher(recorder.FlusherOptions{
		Recorder: a.recorder, Sink: a.backends.store.Offences, Node: a.id, Secret: a.secret,
		Escalations: func() map[int64]offences.EscalationPolicy {
			return offences.EscalationsOf(a.catalog.Selector().Policies())
		},
		Exempt: func(key string) bool {
			k, err := offences.ParseKey(key)
			return err == nil && (a.crowds.Has(k, time.Now()) || a.catalog.Blocks().Match(k, time.Now()).Exemption != nil)
		},
		SafetyLimit:  func() float64 { return a.settings.SafetyLimit },
		OnEscalation: a.escalated,
		Log:          a.log,
	})
	a.entries = &admin.Entries{Store: a.backends.store.Entries, View: a.catalog, Offences: a.backends.store.Offences,
		Traffic: &admin.SampleEstimator{Store: a.backends.store.Offences, Secret: a.secret}, Now: time.Now}
	proposals := &admin.Proposals{Store: a.backends.store.Proposals, Offences: a.backends.store.Offences, Entries: a.entries, View: a.catalog,
		Settings: func() offences.ProposalSettings { return a.settings.Proposals }, OnRequest: a.notifier.proposal}
	a.entries.Propose = proposals.Request
	a.detection = &admin.Detection{Store: a.backends.store.Offences, Attacks: a.backends.store.Attacks, Lists: a.backends.store.BlockSources, Policies: a.backends.store.Policies, Proposals: proposals, View: a.catalog, Requests: a.recorder, Secret: a.secret}
	a.attacks = &admin.AttackWatch{Detection: a.detection, Holder: a.id, Announce: a.notifier.attack, Apply: a.catalog.SetAttack}
	a.reports = &reports.Builder{Store: a.backends.store.Reports, Counts: a.backends.store.Offences, Detection: a.detection, Proposals: proposals, View: a.catalog, Now: time.Now,
		Origin: func(ctx context.Context, key string) string {
			origins := originsOf(a)
			return origins.Of(ctx, key).String()
		}}
}

// crowdFound says that many people share an address, and ends its automatic blocks.
func (a *App) crowdFound(k keys.Key) {
	a.log.Warn("many people share an internal address", "key", escape.Log(k.String()), "about", proxies.AboutShared(k))
	var ids []string
	for _, b := range append(a.catalog.Blocks().Selecting(blocks.Block, k, time.Now()), a.catalog.Blocks().SelectingScoped(k, time.Now())...) {
		if b.Source == blocks.Automatic && b.Pattern == keys.PatternOf(k) {
			ids = append(ids, b.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	go supervise.Do("ending the blocks of a shared address", func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		caller := admin.Caller{Actor: audit.SystemActor("escalation")}
		if _, err := a.entries.End(ctx, caller, blocks.Block, "many people share this internal address", ids...); err != nil {
			a.log.Error("the automatic blocks of a shared address go on", "key", escape.Log(k.String()), "error", err)
		}
	})
}

// secret returns the secret that all nodes of one database share.
func (a *App) secret() []byte { return a.catalog.Settings().Secret }

// escalated applies the blocks that escalations added, and notifies people.
func (a *App) escalated(all []offences.EscalationEvent) {
	if slices.ContainsFunc(all, func(e offences.EscalationEvent) bool { return e.Kind == offences.EscalationBlocked }) {
		a.catalog.Wake()
	}
	a.notifier.escalations(all)
}

// traffic reads the recorded traffic for the use cases.
type traffic struct {
	store     *sqlstore.Store
	detection *admin.Detection
	catalog   *catalog.Catalog
}

// sample implements admin.TrafficSource.
func (t *traffic) sample(ctx context.Context, from, to time.Time) (accesslog.Source, bool, error) {
	sample, err := admin.ReadTrafficSample(ctx, t.store.Offences, t.catalog.Settings().Secret, from, to)
	if err != nil {
		return nil, false, err
	}
	records := make([]accesslog.Record, 0, len(sample.Points))
	for _, p := range sample.Points {
		k, err := offences.ParseKey(p.Key)
		if err != nil {
			continue // the settings have changed since it was recorded
		}
		for range p.Count {
			records = append(records, accesslog.Record{Time: p.At, Key: k, Cost: p.Cost})
		}
	}
	return accesslog.Slice(records), sample.Ratio < 1, nil
}

// paths implements admin.PathSource.
func (t *traffic) paths(ctx context.Context, from, to time.Time) (*admin.PathSample, error) {
	return admin.ReadPathSample(ctx, t.store.Offences, t.catalog.Settings().Secret, from, to)
}

// hasChecks reports whether this installation has ever answered a check.
func (t *traffic) hasChecks(ctx context.Context) (bool, error) {
	total, err := t.detection.TrafficTotal(ctx, 0, time.Now().AddDate(-5, 0, 0), time.Now().Add(time.Minute))
	return total.Checks() > 0, err
}
