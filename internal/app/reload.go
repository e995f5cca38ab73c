package app

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// live is the state that changes when a running node reads its settings again: the
// certificates, the log level and whom it trusts. It is safe for concurrent use.
type live struct {
	log       *slog.Logger
	level     slog.LevelVar
	settings  atomic.Pointer[Settings]
	checkCert *certificate // nil without TLS
	adminCert *certificate
	changing  sync.Mutex // held by reload and followCertificates

	// Whether the last attempt to read failed: of all settings on request, and of the
	// certificates by their task. The task must not hide that the settings were refused.
	reloadFailed, certificateFailed atomic.Bool
}

// failed reports whether what was read last could not be put into effect.
func (l *live) failed() bool { return l.reloadFailed.Load() || l.certificateFailed.Load() }

// liveSettings are the settings that reload puts into effect, each with a function that copies
// it. All others need a restart.
var liveSettings = map[string]func(now *Settings, read Settings){
	"log-level":             func(now *Settings, read Settings) { now.LogLevel = read.LogLevel },
	"trusted-proxies":       func(now *Settings, read Settings) { now.TrustedProxies = read.TrustedProxies },
	"client-address-header": func(now *Settings, read Settings) { now.ClientAddressHeader = read.ClientAddressHeader },
	"allowed-hosts":         func(now *Settings, read Settings) { now.AllowedHosts = read.AllowedHosts },
	"require-totp":          func(now *Settings, read Settings) { now.RequireTOTP = read.RequireTOTP },
	"tls-cert":              copyTLS,
	"tls-key":               copyTLS,
	"admin-tls-cert":        copyAdminTLS,
	"admin-tls-key":         copyAdminTLS,
}

func copyTLS(now *Settings, read Settings) { now.TLS = pathsOf(now.TLS, read.TLS) }

func copyAdminTLS(now *Settings, read Settings) { now.AdminTLS = pathsOf(now.AdminTLS, read.AdminTLS) }

// newLogger returns the logger of the settings, whose level is live. Both formats
// escape control characters, which an attacker may put into a key.
func (l *live) newLogger(s Settings, out io.Writer) *slog.Logger {
	l.setLevel(s)
	o := &slog.HandlerOptions{Level: &l.level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}

func (l *live) setLevel(s Settings) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	l.level.Set(level)
}

// clients returns the ClientAddresses for requests.
func (l *live) clients() httpserver.ClientAddresses {
	s := l.settings.Load()
	return httpserver.ClientAddresses{Proxies: s.TrustedProxies, Header: s.ClientAddressHeader}
}

func (l *live) requireTOTP() identity.TOTPRoles { return l.settings.Load().RequireTOTP }

func (l *live) allowedHosts() *httpserver.AllowedHosts { return &l.settings.Load().AllowedHosts }

// reload reads the settings again and puts those that may change into effect. If any setting is
// invalid, or a certificate cannot be read, nothing changes. It logs the result, and names the
// settings that need a restart.
func (l *live) reload(load func() (Settings, error)) {
	s, err := load() // may wait for somebody to write a pipe
	l.changing.Lock()
	defer l.changing.Unlock()
	if err == nil {
		err = s.bySource(l.certificates(s))
	}
	l.reloadFailed.Store(err != nil)
	if err != nil {
		l.log.Error("the settings were not read again, the earlier ones stay in effect", "error", oneLine(err))
		return
	}
	l.certificateFailed.Store(false) // they were read with the settings
	for _, hint := range s.Hints {
		l.log.Warn(hint)
	}
	changed, restart := changedSettings(*l.settings.Load(), s)
	l.setLevel(s)
	// Settings that need a restart are still shown as they are in effect.
	now := *l.settings.Load()
	now.sources = s.sources
	for _, copySetting := range liveSettings {
		copySetting(&now, s)
	}
	l.settings.Store(&now)
	l.log.Info("the settings were read again", "changed", strings.Join(changed, " "))
	if len(restart) > 0 {
		l.log.Warn("settings have changed that take effect at the next start only", "settings", strings.Join(restart, " "))
	}
}

// pathsOf returns the new files of a listener with TLS. If the listener starts or stops to use
// TLS, which needs a restart, it returns the old files.
func pathsOf(old, read TLSFiles) TLSFiles {
	if old.Enabled() && read.Enabled() {
		return read
	}
	return old
}

// certificates reads the certificates of the settings, and puts them into effect if all are
// valid. It logs which ones are new.
func (l *live) certificates(s Settings) error {
	var store []func()
	for _, c := range []struct {
		certificate *certificate
		files       TLSFiles
	}{{l.checkCert, s.TLS}, {l.adminCert, s.AdminTLS}} {
		if c.certificate == nil || !c.files.Enabled() {
			continue // a listener starts or stops to use TLS only at a restart
		}
		pair, err := c.certificate.read(c.files)
		if err != nil {
			return err
		}
		store = append(store, func() {
			if !pair.equal(c.certificate.current.Swap(pair)) {
				l.log.Info("a new certificate is in effect", "listener", c.certificate.name, "expires", pair.tls.Leaf.NotAfter.UTC())
				c.certificate.warn(l.log, time.Now())
			}
		})
	}
	for _, f := range store {
		f()
	}
	return nil
}

// followCertificates puts changed certificates into effect. It compares the contents of the
// files: Kubernetes and certificate tools replace links, not files.
func (l *live) followCertificates(context.Context) {
	l.changing.Lock()
	defer l.changing.Unlock()
	s := l.settings.Load()
	if err := s.bySource(l.certificates(*s)); err != nil {
		// Log it once: a half-replaced pair is usually complete a moment later.
		if !l.certificateFailed.Swap(true) {
			l.log.Error("a certificate could not be read again, the earlier one stays in effect", "error", oneLine(err))
		}
		return
	}
	l.certificateFailed.Store(false)
}

// changedSettings returns the names of the settings that differ, and of those that need a
// restart.
func changedSettings(before, after Settings) (changed, restart []string) {
	b := after.options()
	for i, o := range before.options() {
		if o.value.exact() == b[i].value.exact() {
			continue
		}
		changed = append(changed, o.name)
		if liveSettings[o.name] == nil || strings.Contains(o.name, "tls-") && before.tlsToggles(after) {
			restart = append(restart, o.name)
		}
	}
	return changed, restart
}

// tlsToggles reports whether a listener starts or stops to use TLS.
func (s *Settings) tlsToggles(after Settings) bool {
	return s.TLS.Enabled() != after.TLS.Enabled() || s.AdminTLS.Enabled() != after.AdminTLS.Enabled()
}
