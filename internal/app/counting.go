package app

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// buildCounting builds the parts that count decisions and query the counts.
func (a *App) buildCounting() {
	a.recorder = recorder.NewRecorder(recorder.Options{Secret: a.secret, Node: a.id, OmitPaths: !a.settings.RecordPaths, OmitAgents: !a.settings.RecordAgents})
	a.flusher = recorder.NewFlusher(recorder.FlusherOptions{
		Recorder: a.recorder, Sink: a.backends.store.Offences, Node: a.id, Secret: a.secret,
		Escalations: func() map[int64]offences.EscalationPolicy {
			return offences.EscalationsOf(a.catalog.Selector().Policies())
		},
		Exempt: func(key string) bool {
			k, err := offences.ParseKey(key)
			return err == nil && a.catalog.Blocks().Match(k, time.Now()).Exemption != nil
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
