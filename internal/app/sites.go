package app

import (
	"time"

	"github.com/stint-dev/stint/internal/answers"
)

// buildSites builds what learns from the answers of sites that are reported.
func (a *App) buildSites() {
	if !a.settings.LearnSites {
		return
	}
	o := answers.SitesOptions{Secret: a.secret, Now: time.Now, Log: a.log, Store: a.backends.store.Sites, AwaitStore: a.preparer.wait}
	if a.settings.SiteHosts.String() != "" {
		o.Lists = a.settings.SiteHosts.Lists
	}
	a.sites = answers.NewSites(o)
}
