package app

import (
	"context"
	"net"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/offenders"
)

func (a *App) newPages(throttle *httpserver.Throttle) (*adminui.UI, error) {
	store := a.backends.store
	d := adminui.Deps{
		Policies: store, Entries: store.Entries(), Identity: store, Audit: store,
		Catalog: a.catalog, Gate: a.gate, Throttle: throttle, Failed: &a.failed, Jobs: a.jobs,
		Offenders: a.offenders, Logs: a.logs(), Recorder: store, Notes: store, Reports: store, Events: a.events, Health: a.health,
		Traffic: &offenders.Estimator{Store: store, Secret: a.secret}, Undo: store,
		Trace: a.trace, Checked: a.checked, Ready: a.Ready,
		Node: a.settings.NodeName, Version: Version(),
		CheckURL: address(a.settings.TLS, a.checks), AdminURL: address(a.settings.AdminTLS, a.admin),
		Secure: a.settings.AdminTLS.Enabled(), Logger: a.log, Now: time.Now,
	}
	for _, s := range a.settings.Shown() {
		d.Settings = append(d.Settings, adminui.Setting(s))
	}
	if a.backends.dir != nil {
		d.DataDir = a.backends.dir.path
	}
	return adminui.New(d)
}

func address(files TLSFiles, l net.Listener) string {
	if files.Enabled() {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// trace returns the recorded checks of a span as a backtest reads them, and
// whether they are only a sample.
func (a *App) trace(ctx context.Context, from, to time.Time) (backtest.Source, bool, error) {
	sample, err := offenders.ReadTrafficSample(ctx, a.backends.store, a.catalog.Settings().Secret, from, to)
	if err != nil {
		return nil, false, err
	}
	records := make([]accesslog.Record, 0, len(sample.Points))
	for _, p := range sample.Points {
		k, err := offences.ParseKey(p.Key)
		if err != nil {
			continue // a key of settings that have changed since
		}
		for range p.Count {
			records = append(records, accesslog.Record{Time: p.At, Key: k, Cost: p.Cost})
		}
	}
	return accesslog.Slice(records), sample.Ratio < 1, nil
}

// checked reports whether any check was ever answered.
func (a *App) checked(ctx context.Context) (bool, error) {
	total, err := a.offenders.TrafficTotal(ctx, 0, time.Now().AddDate(-5, 0, 0), time.Now().Add(time.Minute))
	return total.Checks() > 0, err
}
