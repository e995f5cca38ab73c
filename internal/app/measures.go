package app

import (
	"time"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/metrics"
)

func (a *App) newMetrics() *metrics.Metrics {
	return metrics.New(buildinfo.Read(), a.settings.NodeName, metrics.Gauges{
		Outage: func() bool { return a.gate.Outage().Open() },
		Failing: func() bool {
			_, err := a.catalog.Failing()
			return err != nil
		},
		Revision: a.catalog.Revision,
		Blocks: func() int {
			blocks, _ := a.catalog.Blocks().Sizes()
			return blocks
		},
		Exemptions: func() int {
			_, exemptions := a.catalog.Blocks().Sizes()
			return exemptions
		},
		LocalKeys: a.backends.memory.Len,
	})
}

func (a *App) observe(l api.Listener, status int, took time.Duration) {
	name := "admin"
	if l == api.Checks {
		name = "checks"
		a.pulse.Add(took)
	}
	a.metrics.Request(name, status, took)
}
