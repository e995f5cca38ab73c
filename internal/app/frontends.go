package app

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/admin/usecases"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/adminui/administration"
	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/doors/crowdsec"
	"github.com/stint-dev/stint/internal/doors/forwardauth"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/metrics"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// newServer builds the REST API, the pages and the server for both.
func (a *App) newServer() (*httpserver.Server, error) {
	options := a.serverOptions()
	recorded := &traffic{a.backends.store, a.detection, a.catalog}
	use := a.useCases(recorded)
	pages, err := a.newPages(use, recorded, options.Throttle)
	if err != nil {
		return nil, err
	}
	options.Sessions, options.MissingPage = pages.Sessions(), pages.MissingPage
	own := append(httpserver.PprofRoutes(), httpserver.MetricsRoute(a.metrics.Handler()))
	a.forward = forwardauth.New(forwardauth.Options{Gate: a.gate, View: a.catalog, TokenHeader: a.settings.ForwardTokenHeader, JA4Header: a.settings.JA4Header, Challenges: a.challenges, Logger: a.log})
	doors := a.forward.Routes()
	rest := api.New(api.Deps{
		Gate: a.gate, Challenges: a.challenges, Catalog: a.catalog, UseCases: use, Learned: a.sites, Events: a.events, Ready: a.status.ready, Now: time.Now, Build: buildinfo.Read(), Doors: doors,
	})
	return httpserver.New(options, rest.Routes(), openapi.Served(doors), crowdsec.New(a.bouncers).Routes(), a.grpc.routes(), own, pages.Routes()), nil
}

func (a *App) serverOptions() httpserver.Options {
	o := httpserver.Options{
		Credentials: a.catalog, Tokens: a.backends.store.Identities,
		Throttle: httpserver.NewThrottle(httpserver.ThrottleOptions{
			Shared: a.backends.log, Local: a.backends.local, Secret: a.secret, Known: a.catalog.KnownLogin,
		}),
		CheckAuth:     a.settings.CheckAuth == "token",
		Clients:       a.live.clients,
		SecretPaths:   api.SecretPaths(),
		Logger:        a.log,
		CountToken:    func(o identity.LoginOutcome) { a.metrics.CountLogin(identity.ByToken, o) },
		StoreLiveness: a.backends.liveness(),
		Observe:       a.observe, Tracer: a.tracer, CheckLogRatio: a.settings.CheckLogRatio,
	}
	// The host is not checked if DNS rebinding is impossible: with TLS, because the browser
	// rejects the certificate, and with tokens, because no page can send one.
	if !a.settings.AdminTLS.Enabled() {
		o.AdminHosts = a.live.allowedHosts
	}
	if !a.settings.TLS.Enabled() && !o.CheckAuth {
		o.CheckHosts = a.live.allowedHosts
	}
	return o
}

// observe counts one response. Requests of bouncers on the check listener, for example for all
// blocks, are not checks.
func (a *App) observe(of *httpserver.Answered) {
	r := of.Route
	if r.Door != "" {
		a.metrics.Check(&metrics.CheckAnswer{
			Door: r.Door, Outcome: gate.Outcome(of.Outcome), Status: of.Status, Took: of.Took, At: of.Read.Add(of.Took),
			IDs: metrics.IDs{Request: of.RequestID, Trace: of.TraceID},
		})
		return
	}
	name := "admin"
	switch {
	case r.Access == identity.Bouncer:
		name = "bouncers"
	case r.Listener == httpserver.Checks:
		name = "checks"
	}
	a.metrics.Request(name, of.Status, of.Took)
}

func (a *App) newPages(use usecases.UseCases, recorded *traffic, throttle *httpserver.Throttle) (*adminui.Pages, error) {
	logins := loginsOf(a, throttle)
	d := adminui.Deps{
		UseCases: use, Challenges: a.challenges, Logins: logins, OpenID: openIDOf(a, logins, throttle), TwoFactor: twoFactorOf(a, throttle), OwnPassword: ownPasswordOf(a, throttle),
		Catalog: a.catalog, Events: a.events, Health: a.status.health,
		Checked: recorded.hasChecks, Ready: a.status.ready, StoreLiveness: a.backends.liveness(),
		Node: a.settings.NodeName, Build: buildinfo.Read(),
		CheckURL: urlOf(a.settings.TLS, a.checks), AdminURL: urlOf(a.settings.AdminTLS, a.admin), PagesURL: a.settings.Notify.Pages,
		Secure: a.settings.AdminTLS.Enabled(), Logger: a.log, Now: time.Now,
	}
	d.Settings = func() (shown []administration.Setting) {
		for _, s := range a.live.settings.Load().Shown() {
			shown = append(shown, administration.Setting(s))
		}
		return shown
	}
	if a.backends.dir != nil {
		d.DataDir = a.backends.dir.path
	}
	if a.settings.openPages {
		d.OpenAs = adminName
	}
	return adminui.New(d)
}

// notificationsOf returns the use case of showing, setting up, testing and silencing notifications.
func notificationsOf(a *App) *operations.Notifications {
	store := a.backends.store
	return &operations.Notifications{
		Notifier: a.notifier.dispatcher, Apply: a.notifier.load, Outbox: store.Outbox, Recorder: store.Audit,
		Channels: store.Channels, Builder: a.notifier.builder, Preset: presetChannels(a.settings.Notify), Now: time.Now,
	}
}

// originsOf returns the use case of looking up the origins of addresses.
func originsOf(a *App) operations.Origins {
	return operations.Origins{Database: a.geo.Database, Names: a.names}
}

// loginsOf returns the use case of logging in.
func loginsOf(a *App, throttle *httpserver.Throttle) *identities.Logins {
	store := a.backends.store
	return &identities.Logins{
		Users: store.Identities, Factors: store.Factors, Throttle: throttle, Failed: &a.failed, Counter: a.metrics,
		PasswordUsers: a.settings.PasswordUsers, Now: time.Now,
		Sessions: identities.NewSessions(identities.SessionOptions{
			Store: store.Identities, Pending: store.Factors, UsersRevision: a.catalog.UsersRevision, RequireTOTP: a.live.requireTOTP, Now: time.Now, Log: a.log,
		}),
	}
}

// openIDOf returns the use case of logging in with an OpenID provider, nil without one.
func openIDOf(a *App, logins *identities.Logins, throttle *httpserver.Throttle) *identities.OpenIDLogins {
	if a.openID == nil {
		return nil
	}
	return &identities.OpenIDLogins{
		Provider: a.openID, Users: a.backends.store.Identities, Sessions: logins.Sessions, Throttle: throttle, Failed: &a.failed, Counter: a.metrics,
		Reserved: a.settings.PasswordUsers, Now: time.Now,
	}
}

// twoFactorOf returns the use cases of a user's own second factor.
func twoFactorOf(a *App, throttle *httpserver.Throttle) *identities.TwoFactor {
	return &identities.TwoFactor{Store: a.backends.store.Factors, Throttle: throttle, Failed: &a.failed, Counter: a.metrics, Now: time.Now}
}

// ownPasswordOf returns the use case of changing one's own password.
func ownPasswordOf(a *App, throttle *httpserver.Throttle) *identities.OwnPassword {
	return &identities.OwnPassword{Store: a.backends.store.Identities, Throttle: throttle, Failed: &a.failed, Counter: a.metrics, Now: time.Now}
}

// connectOf returns the use cases of connecting gateways to this node.
func connectOf(a *App, tokens *identities.Tokens) *operations.Connect {
	return &operations.Connect{
		Tokens: tokens, CheckURL: urlOf(a.settings.TLS, a.checks), NeedsToken: a.settings.CheckAuth == "token",
		TokenHeader:  string(cmp.Or(a.settings.ForwardTokenHeader, forwardauth.DefaultTokenHeader)),
		JA4Header:    a.settings.JA4Header,
		HasSiteHosts: a.settings.SiteHosts.String() != "",
		Asked:        func() []conditions.Attribute { return operations.AskedBy(a.catalog, time.Now()) },
		LastAsked:    func() time.Time { return a.forward.LastAsked() },
		Counts:       func() bool { return a.catalog.Selector().OnlyCounting() != "" },
		Trusted:      func() string { return a.live.settings.Load().TrustedProxies.String() },
		Pathless: func() (string, time.Time) {
			last := a.forward.LastPathless()
			if last.IsZero() {
				return "", last
			}
			return a.catalog.Selector().PathPolicy(), last
		},
	}
}

func (a *App) useCases(recorded *traffic) usecases.UseCases {
	store := a.backends.store
	policies := admin.NewPolicies(store.Policies, admin.PolicyOptions{View: a.catalog, Traffic: recorded.sample, Paths: recorded.paths, Now: time.Now,
		Sample: func(ctx context.Context, from, to time.Time) (*admin.TrafficSample, error) {
			return admin.ReadTrafficSample(ctx, store.Offences, a.secret(), from, to)
		}})
	use := usecases.UseCases{
		Bots:      &operations.Bots{Store: store.Offences, Directory: a.bots, View: a.catalog, Now: time.Now},
		Bouncers:  a.bouncers,
		Crawlers:  operations.Crawlers{Verifier: a.crawlers},
		Detection: a.detection,
		Entries:   a.entries,
		Jobs:      &operations.Jobs{Runner: a.jobs, Recorder: store.Audit},
		Keys: &admin.Keys{
			View: a.catalog, Gate: a.gate, Escalations: a.detection, Logs: a.logs(), Notes: store.Notes, Recorder: store.Audit, WasSeen: a.entries.WasSeen,
			Erasure: store.Erasure, Secret: a.secret, Forget: a.forget,
		},
		Notifications: notificationsOf(a),
		Origins:       originsOf(a),
		Policies:      policies,
		Profiles:      &profiles.Profiles{View: a.catalog, Store: store.Profiles, Now: time.Now},
		Reports:       &operations.Reports{Builder: a.reports, Recorder: store.Audit, Now: time.Now},
		Sites:         &operations.Sites{Sites: a.sites, Store: store.Sites},
		Sources:       a.sources,
		Tokens:        &identities.Tokens{Store: store.Identities, Now: time.Now},
		Undo:          &admin.Undo{Records: store.Audit, Store: store, Entries: a.entries, Policies: policies},
		Users:         &identities.Users{Store: store.Identities, Secret: a.secret, Now: time.Now},
	}.OnStore(store, time.Now)
	use.Connect = connectOf(a, use.Tokens)
	if a.backends.dir != nil {
		use.Backups.Store = newBackups(a)
	}
	return use
}

// forget forgets the requests of a key, and writes what was counted.
func (a *App) forget(ctx context.Context, key string) error {
	a.recorder.Forget(key)
	return a.flusher.Flush(ctx)
}

// logs returns the logs from which a reset deletes.
func (a *App) logs() []timestamplog.Log {
	if a.backends.local == nil {
		return []timestamplog.Log{savedLog{a.backends.log, a.snapshots}}
	}
	return []timestamplog.Log{a.backends.log, a.backends.local}
}

// urlOf returns the URL of a listener.
func urlOf(files TLSFiles, l net.Listener) string {
	if files.Enabled() {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}
