package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/firewall"
	"github.com/stint-dev/stint/internal/logfollow"
)

// metricsFlag adds the flag with the address of the metrics listener, for long-running
// commands. The example has a port of its own for each command, as docs/doors.
func metricsFlag(flags *pflag.FlagSet, address *string, example string) {
	flags.StringVar(address, "metrics-listen", "", "an address such as "+example+" that serves /metrics for Prometheus; they name no keys")
}

// series is one metric that is read on each scrape.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func() float64
}

// list collects series.
type list []series

func (l *list) add(kind prometheus.ValueType, name, help string, labels prometheus.Labels, value func() float64) {
	*l = append(*l, series{prometheus.NewDesc(name, help, nil, labels), kind, value})
}

// Describe implements prometheus.Collector.
func (l list) Describe(to chan<- *prometheus.Desc) {
	for _, s := range l {
		to <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (l list) Collect(to chan<- prometheus.Metric) {
	for _, s := range l {
		to <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value())
	}
}

// followMetrics are the metrics of follow.
func followMetrics(p *logfollow.Progress) list {
	var l list
	count := func(name, help string, labels prometheus.Labels, n func(*logfollow.Snapshot) int64) {
		l.add(prometheus.CounterValue, name, help, labels, func() float64 {
			s := p.Snapshot()
			return float64(n(&s))
		})
	}
	count("stint_follow_lines_total", "Lines read, all but blank ones.", nil, func(s *logfollow.Snapshot) int64 { return s.Lines })
	for decision, n := range map[string]func(*logfollow.Snapshot) int64{
		"allowed":     func(s *logfollow.Snapshot) int64 { return s.Allowed },
		"limited":     func(s *logfollow.Snapshot) int64 { return s.Limited },
		"blocked":     func(s *logfollow.Snapshot) int64 { return s.Blocked },
		"unavailable": func(s *logfollow.Snapshot) int64 { return s.Unavailable },
	} {
		count("stint_follow_checks_total", "Checks that the server has answered, by its decision.", prometheus.Labels{"decision": decision}, n)
	}
	count("stint_follow_reports_total", "Outcomes that the server has accepted.", nil, func(s *logfollow.Snapshot) int64 { return s.Reported })
	for reason, n := range map[string]func(*logfollow.Snapshot) int64{
		"late":       func(s *logfollow.Snapshot) int64 { return s.Late },
		"no_request": func(s *logfollow.Snapshot) int64 { return s.Bad },
		"rejected":   func(s *logfollow.Snapshot) int64 { return s.Rejected },
		"uncertain":  func(s *logfollow.Snapshot) int64 { return s.Uncertain },
	} {
		count("stint_follow_unchecked_total", "Lines that were not checked, by the reason.", prometheus.Labels{"reason": reason}, n)
	}
	l.add(prometheus.GaugeValue, "stint_follow_unread_bytes", "Bytes of the logs that have not been checked.", nil, func() float64 { return float64(p.Snapshot().Unread) })
	l.add(prometheus.GaugeValue, "stint_follow_delay_seconds", "Time from the reading of the last batch to its answer; it grows while the server does not answer.", nil,
		func() float64 { return p.Snapshot().Delay.Seconds() })
	l.add(prometheus.GaugeValue, "stint_follow_answered_timestamp_seconds", "When the server answered last; 0 for never.", nil, func() float64 { return seconds(p.Snapshot().AnsweredAt) })
	return l
}

// firewallMetrics are the metrics of 'firewall nftables'.
func firewallMetrics(p *firewall.Progress) list {
	var l list
	add := func(kind prometheus.ValueType, name, help string, labels prometheus.Labels, n func(*firewall.Snapshot) int) {
		l.add(kind, name, help, labels, func() float64 {
			s := p.Snapshot()
			return float64(n(&s))
		})
	}
	add(prometheus.GaugeValue, "stint_firewall_blocks", "Active blocks of the server.", nil, func(s *firewall.Snapshot) int { return s.Blocks })
	for reason, n := range map[string]func(*firewall.Snapshot) int{
		"not_an_address": func(s *firewall.Snapshot) int { return s.NotAddresses },
		"origin":         func(s *firewall.Snapshot) int { return s.Origins },
		"every_address":  func(s *firewall.Snapshot) int { return s.EveryAddress },
	} {
		add(prometheus.GaugeValue, "stint_firewall_blocks_left_out", "Active blocks that are not added, by the reason.", prometheus.Labels{"reason": reason}, n)
	}
	add(prometheus.GaugeValue, "stint_firewall_ranges", "Ranges in the sets.", prometheus.Labels{"family": "ipv4"}, func(s *firewall.Snapshot) int { return s.IPv4 })
	add(prometheus.GaugeValue, "stint_firewall_ranges", "Ranges in the sets.", prometheus.Labels{"family": "ipv6"}, func(s *firewall.Snapshot) int { return s.IPv6 })
	add(prometheus.CounterValue, "stint_firewall_ranges_changed_total", "Ranges added and removed.", prometheus.Labels{"change": "added"}, func(s *firewall.Snapshot) int { return s.Added })
	add(prometheus.CounterValue, "stint_firewall_ranges_changed_total", "Ranges added and removed.", prometheus.Labels{"change": "removed"}, func(s *firewall.Snapshot) int { return s.Removed })
	add(prometheus.CounterValue, "stint_firewall_comparisons_total", "Comparisons of the sets with all blocks.", nil, func(s *firewall.Snapshot) int { return s.Comparisons })
	add(prometheus.CounterValue, "stint_firewall_failures_total", "Attempts to read the server or to write the sets that failed and are repeated.", nil, func(s *firewall.Snapshot) int { return s.Failures })
	add(prometheus.GaugeValue, "stint_firewall_connected", "1 while the changes of the server are followed.", nil, func(s *firewall.Snapshot) int {
		if s.IsConnected {
			return 1
		}
		return 0
	})
	l.add(prometheus.GaugeValue, "stint_firewall_compared_timestamp_seconds", "When everything was compared last; 0 for never.", nil, func() float64 { return seconds(p.Snapshot().ComparedAt) })
	return l
}

// seconds returns a time in Prometheus's form, Unix seconds; 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// Limits of the metrics listener, to which anybody who can reach it may send requests.
const (
	metricsTimeout    = 5 * time.Second
	maxMetricsHeader  = 8 << 10
	maxMetricsClients = 4
)

// serveMetrics serves the metrics at an address until stop is called. An empty address
// serves nothing.
func serveMetrics(con *console.Console, address string, metrics list) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, console.Usagef("--metrics-listen: %q is not an address with a port; write for example 127.0.0.1:9119", address)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(metrics); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxMetricsClients}))
	server := &http.Server{
		Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: maxMetricsHeader,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	con.Notef("Metrics: http://%s/metrics", listener.Addr())
	return func() {
		_ = server.Close() // it only answers scrapes, and the process ends
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			con.Notef("metrics: %v", err)
		}
	}, nil
}
