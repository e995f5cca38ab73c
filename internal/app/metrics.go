package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/metrics"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/tracing"
)

// newMetrics builds the metrics. Its gauges read the parts of the node, which may be built
// later: parts count in the metrics from their start.
func (a *App) newMetrics() *metrics.Metrics {
	return metrics.New(buildinfo.Read(), a.settings.NodeName, metrics.Gauges{
		Outage: func() bool { return a.gate.Outage().Open() },
		Failing: func() bool {
			_, unreachable := databaseOutage(a.catalog, a.backends)
			_, refusing := a.writes.failing()
			return unreachable != nil || refusing != nil
		},
		Revision:   func() int64 { return a.catalog.Revision() },
		Blocks:     func() int { return a.catalog.Blocks().Size(blocks.Block) },
		Exemptions: func() int { return a.catalog.Blocks().Size(blocks.Exemption) },
		LocalKeys:  func() int { return a.backends.memory.Len() },
	})
}

// registerMetrics adds the metrics of the parts that this node has.
func registerMetrics(a *App) {
	m := a.metrics
	a.catalog.OnChange(func(changed catalog.Changed) {
		if !changed.Policies {
			return
		}
		policies := a.catalog.Selector()
		m.KeepPolicies(func(name string) bool {
			_, found := policies.ByName(name)
			return found
		})
	})
	m.Registry().MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_reload_failed", Help: "1 if the settings, a certificate or a GeoIP file could not be read again; the earlier ones are in effect."},
			func() float64 { return one(a.live.failed() || a.geo.Failed()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_geoip_incomplete",
			Help: "1 if patterns of asn: or country: are active that this node cannot match, because its GeoIP files do not know these origins."},
			func() float64 { return one(a.geo.Problem() != "") }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_forward_without_path_total",
			Help: "Requests of gateways to /v1/forward that did not say the path of the client's request while a policy applies by paths, which never applied to them."},
			func() float64 { return float64(a.forward.Pathless()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_policy_values_unsaid",
			Help: "Values that policies count by or have conditions about and that none of a thousand requests or more said to this node; the policies' warnings name them."},
			func() float64 { return float64(a.catalog.Selector().UnsaidValues()) }))
	for _, c := range []*certificate{a.live.checkCert, a.live.adminCert} {
		if c != nil {
			m.Registry().MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_certificate_expiry_timestamp_seconds",
				Help: "When the certificate of a listener expires, in Unix time.", ConstLabels: prometheus.Labels{"listener": c.name}},
				func() float64 { return float64(c.loaded().tls.Leaf.NotAfter.Unix()) }))
		}
	}
	m.Registry().MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_notifications_waiting", Help: "Messages in the outbox that are neither sent nor given up; the same on all nodes."},
			func() float64 { n, _ := a.notifier.readBacklog(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_notifications_oldest_age_seconds", Help: "Age of the oldest message that waits in the outbox, 0 for none."},
			func() float64 { _, age := a.notifier.readBacklog(); return age.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_attack_active", Help: "1 while an announced attack goes on; the same on all nodes."},
			func() float64 { return one(a.attacks.IsActive()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_attacks_total", Help: "Attacks whose beginning this node announced; one node announces each."},
			func() float64 { return float64(a.attacks.Began()) }))
	m.Registry().MustRegister(memoryMetrics(a.backends.memory)...)
	m.Registry().MustRegister(connMetrics("checks", a.conns.checks)...)
	m.Registry().MustRegister(connMetrics("admin", a.conns.admin)...)
	if a.grpc.listener != nil {
		m.Registry().MustRegister(connMetrics("grpc", a.conns.grpc)...)
	}
	if a.watch != nil {
		m.Registry().MustRegister(redisMetrics(a.watch, &a.outages)...)
	}
	if a.lastKnown != nil {
		m.Registry().MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_started_from_saved_state",
			Help: "1 if the database was unreachable when this node started, so that it began with the policies and blocks saved in its data directory."},
			func() float64 { return one(a.preparer.fromLastKnown.Load()) }))
	}
}

// connMetrics returns the metrics of a listener's connections.
func connMetrics(listener string, conns *connlimit.Set) []prometheus.Collector {
	gauge := func(name, help string, read func(connlimit.Stats) int) prometheus.Collector {
		o := prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"listener": listener}}
		return prometheus.NewGaugeFunc(o, func() float64 { return float64(read(conns.Stats())) })
	}
	return []prometheus.Collector{
		gauge("stint_connections", "Open connections of a listener.", func(s connlimit.Stats) int { return s.Open }),
		gauge("stint_connections_max", "Connections that a listener may have, by the files and the memory of the process.", func(s connlimit.Stats) int { return s.Max }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "stint_connections_cut_total", Help: "Connections that were closed or refused because their listener had as many as it may.",
			ConstLabels: prometheus.Labels{"listener": listener},
		}, func() float64 { return float64(conns.Stats().Cut) }),
	}
}

// memoryMetrics returns the metrics of the bound on the logs in memory.
func memoryMetrics(log *memlog.Log) []prometheus.Collector {
	gauge := func(name, help string, read func(memlog.MemoryStats) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read(log.Memory())) })
	}
	counter := func(name, help string, read func(memlog.MemoryStats) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read(log.Memory())) })
	}
	return []prometheus.Collector{
		gauge("stint_local_logs_bytes", "Memory that the logs on this node take.", func(s memlog.MemoryStats) int64 { return s.Used }),
		gauge("stint_local_logs_max_bytes", "Memory that the logs on this node may take, as --max-memory says.", func(s memlog.MemoryStats) int64 { return s.Max }),
		counter("stint_local_logs_forgotten_total", "Logs of keys that were neither refused nor blocked, deleted before they expired because memory was short.",
			func(s memlog.MemoryStats) int64 { return s.Forgotten }),
		counter("stint_local_logs_unkept_total", "Allowed requests that were not counted, because memory was short and every log belonged to a refused or blocked key.",
			func(s memlog.MemoryStats) int64 { return s.Unkept }),
	}
}

// redisMetrics returns the metrics of a distributed node.
func redisMetrics(w *redisWatch, o *outageLog) []prometheus.Collector {
	gauge := func(name, help string, read func(redisState) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return read(w.state()) })
	}
	return []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_redis_evicted_keys_total", Help: "Keys that Redis was seen to evict since this node started; each may have been a log."},
			func() float64 { return float64(w.state().Evicted) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_redis_outages_total", Help: "Outages of Redis servers that have begun."},
			func() float64 { return float64(o.redisOutages.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_redis_servers_unreachable", Help: "Redis servers that are unreachable at present."},
			func() float64 { return float64(len(w.redis.Outages())) }),
		gauge("stint_redis_misconfigured", "1 while the configuration of Redis does not allow logs.", func(s redisState) float64 { return one(s.Problem != "") }),
		gauge("stint_redis_may_evict", "Redis servers whose maxmemory-policy lets them evict logs.", func(s redisState) float64 { return float64(len(s.MayEvict)) }),
		gauge("stint_redis_info_unreadable", "Redis servers whose evictions cannot be read from INFO.", func(s redisState) float64 { return float64(len(s.Unread)) }),
	}
}

// one returns 1 for true.
func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// newTracer returns the tracer of a node, nil for none.
func newTracer(ctx context.Context, s Settings, log *slog.Logger) (*tracing.Tracer, error) {
	if s.Trace.Endpoint == "" {
		return nil, nil
	}
	t, err := tracing.New(ctx, tracing.Options{
		Endpoint: s.Trace.Endpoint, Ratio: s.Trace.Ratio, Version: buildinfo.Read().Version, Node: s.NodeName, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--trace-endpoint: %s", oneLine(err))
	}
	return t, nil
}
