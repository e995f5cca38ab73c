package app

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/internal/admin/sources"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/offences"
)

// buildSources builds the use cases of the lists that are pulled.
func (a *App) buildSources() {
	store := a.backends.store
	client := egress.New(egress.Options{AllowPrivate: a.settings.Notify.AllowPrivate, Timeout: egress.FetchTimeout})
	a.sources = &sources.Sources{
		Store: store.BlockSources, Entries: store.Entries, Leases: store.Jobs, View: a.catalog, Traffic: a.entries.Traffic, Node: a.id, Log: a.log, Now: time.Now,
		Own: a.ownAddresses, Alarm: a.notifier.source,
		Refused: func(ctx context.Context, since time.Time) (map[string]int64, error) {
			return refusedByBlocks(ctx, a, since)
		},
		Fetch: func(ctx context.Context, r sources.Request) (*sources.Answer, error) {
			answer, err := client.Fetch(ctx, egress.Fetch{URL: r.URL, Header: r.Header, ETag: r.ETag, Modified: r.Modified})
			if err != nil {
				return nil, err
			}
			return &sources.Answer{Body: answer.Body, IsSame: answer.IsSame, ETag: answer.ETag, Modified: answer.Modified}, nil
		},
	}
	a.lists.find = func(ctx context.Context) ([]blocks.List, error) { return store.BlockSources.FindLists(ctx, false) }
	a.metrics.Registry().MustRegister(&a.lists)
}

func refusedByBlocks(ctx context.Context, a *App, since time.Time) (map[string]int64, error) {
	totals, err := a.backends.store.Offences.RuleTotals(ctx, offences.Span{From: since, To: time.Now()})
	byID := map[string]int64{}
	for _, t := range totals {
		if t.Kind == offences.Blocked {
			byID[t.RefusedBy] += t.Refused()
		}
	}
	return byID, err
}

// ownAddresses returns the addresses that no list blocks: those of this machine, and its trusted
// proxies, by which everybody comes.
func (a *App) ownAddresses() []netip.Prefix {
	own := slices.Clone([]netip.Prefix(a.live.settings.Load().TrustedProxies))
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return own
	}
	for _, address := range addresses {
		if network, is := address.(*net.IPNet); is {
			if ip, ok := netip.AddrFromSlice(network.IP); ok {
				ip = ip.Unmap()
				own = append(own, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	return own
}

// source sends a notification when a source is stale or held, and when it is not any more.
func (n *notifier) source(ctx context.Context, isTrouble bool, subject, text string) {
	kind := notify.Recovery
	if isTrouble {
		kind = notify.JobFailed
	}
	n.notify(ctx, notify.Notification{Kind: kind, Subject: subject, Text: text, Facts: map[string]string{"node": n.node}})
}

// listMetrics are the metrics of the sources. They are the same on all nodes, since each reads the
// database.
type listMetrics struct {
	find  func(context.Context) ([]blocks.List, error)
	known atomic.Pointer[[]blocks.List]
}

func (m *listMetrics) read(ctx context.Context) {
	if all, err := m.find(ctx); err == nil { // the outage of the database is reported
		m.known.Store(&all)
	}
}

var (
	listRows  = prometheus.NewDesc("stint_list_rows", "Rows of a source that are in force; the same on all nodes.", []string{"list"}, nil)
	listGood  = prometheus.NewDesc("stint_list_last_success_timestamp_seconds", "When a source was last pulled, or had not changed; the same on all nodes.", []string{"list"}, nil)
	listState = prometheus.NewDesc("stint_list_state", "1 for the state of a source: waiting, current, failing, stale or held; the same on all nodes.", []string{"list", "state"}, nil)
)

// Describe implements prometheus.Collector.
func (m *listMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{listRows, listGood, listState} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *listMetrics) Collect(to chan<- prometheus.Metric) {
	all := m.known.Load()
	if all == nil {
		return
	}
	for _, l := range *all {
		to <- prometheus.MustNewConstMetric(listRows, prometheus.GaugeValue, float64(l.State.Rows), l.Name)
		if !l.State.Pulled.IsZero() {
			to <- prometheus.MustNewConstMetric(listGood, prometheus.GaugeValue, float64(l.State.Pulled.Unix()), l.Name)
		}
		to <- prometheus.MustNewConstMetric(listState, prometheus.GaugeValue, 1, l.Name, sources.StateOf(&l, time.Now()))
	}
}
