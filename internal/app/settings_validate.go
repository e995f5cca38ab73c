package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/eventlog"
	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/notify/egress"
)

// validate checks the settings that depend on each other. Its errors are one line
// each.
func (s Settings) validate() error {
	for _, check := range []func(Settings) error{validateListeners, validateBackends, validateTLS, validateCredentials, validateOpenID, validateSchedules, validateChannels, validateCaptcha} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func validateListeners(s Settings) error {
	addresses := map[string]string{"listen": s.Listen, "admin-listen": s.AdminListen}
	if s.GRPCListen != "" {
		addresses["grpc-listen"] = s.GRPCListen
	}
	for name, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("--%s: got %q; write host:port, for example 127.0.0.1:8080", name, address)
		}
		if _, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err != nil {
			return fmt.Errorf("--%s: got %q, whose port must be 0 to 65535, for example 127.0.0.1:8080", name, address)
		}
	}
	if s.Listen == s.AdminListen && !strings.HasSuffix(s.Listen, ":0") {
		return fmt.Errorf("--listen and --admin-listen are both %s; checks and the admin API must not share a listener; give each its own port", s.Listen)
	}
	if (s.GRPCListen == s.Listen || s.GRPCListen == s.AdminListen) && !strings.HasSuffix(s.GRPCListen, ":0") {
		return fmt.Errorf("--grpc-listen is %s, as another listener is; give each its own port", s.GRPCListen)
	}
	if !s.AdminTLS.Enabled() && !s.AdminInsecure && !isLoopback(s.AdminListen) {
		return fmt.Errorf("--admin-listen %s is reached from other machines, and without TLS they send passwords and tokens in the clear: give --admin-tls-cert and --admin-tls-key, or --admin-insecure true where a private network or a TLS proxy in front protects it", s.AdminListen)
	}
	switch s.CheckAuth {
	case "off", "token":
	case "":
		for _, name := range []string{"listen", "grpc-listen"} {
			if address := addresses[name]; address != "" && !isLoopback(address) {
				return fmt.Errorf("--%s %s is reached from other machines, so --check-auth must say whether checks need a token: off or token", name, address)
			}
		}
	default:
		return fmt.Errorf("--check-auth: %w", mustBe("off or token", s.CheckAuth))
	}
	return nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func validateBackends(s Settings) error {
	switch {
	case s.RedisURL != "" && s.DatabaseURL == "":
		return errors.New("--redis-url is given without --database-url: nodes that share logs must also share policies and blocks; give both, or neither to run on this machine alone")
	case s.RedisURL == "" && s.DatabaseURL != "":
		return errors.New("--database-url is given without --redis-url: nodes that share policies must also share the logs, or each would allow the whole limit; give both, or neither to run on this machine alone")
	case s.RedisURL == "":
		return nil
	case s.BackupDir != "":
		return errors.New("--backup-dir is for the embedded data; with --redis-url and --database-url, back up Redis and Postgres with their own tools, as docs/BACKUP.md says")
	}
	if u, err := url.Parse(s.DatabaseURL); err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return errors.New("--database-url: must be a URL of Postgres; write postgres://user@host:5432/stint")
	}
	u, err := url.Parse(s.RedisURL)
	if err != nil || !slices.Contains([]string{"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}, u.Scheme) {
		return errors.New("--redis-url: must be a URL of Redis; write redis://host:6379/0, or rediss:// for TLS")
	}
	if s.RedisPrefix == "" || strings.ContainsAny(s.RedisPrefix, "{}: \t\n") {
		return fmt.Errorf("--redis-prefix: %w", mustBe("a word without braces, colons and spaces", s.RedisPrefix))
	}
	return nil
}

func validateCaptcha(s Settings) error {
	c := s.Challenge.Captcha
	switch {
	case !c.Provider.IsRemote():
		return nil
	case c.SiteKey == "" || c.Secret == "":
		return fmt.Errorf("--challenge-captcha %s needs --challenge-captcha-site-key, and the secret in STINT_CHALLENGE_CAPTCHA_SECRET or the file that --challenge-captcha-secret-file names: the provider gives both for a site", c.Provider)
	case s.SiteHosts.String() == "":
		return fmt.Errorf("--challenge-captcha %s needs --site-hosts: the host names of your sites, so that answers from the pages of others do not count, or * for any", c.Provider)
	}
	return nil
}

func validateTLS(s Settings) error {
	for prefix, files := range map[string]TLSFiles{"--tls": s.TLS, "--admin-tls": s.AdminTLS} {
		if (files.Cert == "") != (files.Key == "") {
			return fmt.Errorf("%s-cert and %s-key belong together: give both or neither", prefix, prefix)
		}
	}
	files := s.EventLog.TLS
	if (files.Cert == "") != (files.Key == "") {
		return errors.New("--event-log-cert and --event-log-key belong together: give both or neither")
	}
	if files != (eventlog.TLSFiles{}) && !s.EventLog.To.TLS {
		return errors.New("--event-log-ca, --event-log-cert and --event-log-key are for --event-log syslogs://host:6514, which is not given")
	}
	if s.EventLog.Allowed > 0 && s.EventLog.To.IsZero() {
		return errors.New("--event-log-allowed needs --event-log, which says where events are written")
	}
	return nil
}

func validateOpenID(s Settings) error {
	if err := s.OpenID.Validate(); err != nil {
		return err
	}
	if !s.OpenID.Enabled() {
		if s.PasswordUsers != nil {
			return errors.New("--password-login names users, but the others have no other way in: give --oidc-issuer, or leave it at all")
		}
		return nil
	}
	u, err := url.Parse(s.OpenID.RedirectURL)
	if err != nil {
		return err
	}
	if !s.AdminTLS.Enabled() && !s.AllowedHosts.AllowsHost(u.Host) {
		return fmt.Errorf("--oidc-redirect-url: this node does not answer under the host name %s; add it to --allowed-hosts", u.Hostname())
	}
	return nil
}

func validateCredentials(s Settings) error {
	if s.AdminToken != "" {
		if err := identity.CheckChosenToken(s.AdminToken); err != nil {
			return fmt.Errorf("STINT_ADMIN_TOKEN cannot be used: %w", err)
		}
	}
	if s.AdminPassword != "" {
		if err := identity.CheckPassword(s.AdminPassword); err != nil {
			return fmt.Errorf("STINT_ADMIN_PASSWORD cannot be used: %w", err)
		}
	}
	return nil
}

func validateSchedules(s Settings) error {
	if err := jobs.CheckSchedules(s.Schedules, disabledJobs(s), jobs.Names()); err != nil {
		return fmt.Errorf("--schedules: %w", err)
	}
	return nil
}

func validateChannels(s Settings) error {
	_, err := settingsChannels(s.Notify, egress.New(egress.Options{}))
	return err
}

// CheckFile reads the settings as a node with --config FILE would. It writes every problem on
// one line, and reports whether there is none. It also reads the certificates and the GeoIP files,
// but connects to nothing.
func CheckFile(path string, p Process) bool {
	s, faults := load([]string{"--config", path}, p.Environ)
	if len(faults) == 0 {
		for name, files := range map[string]TLSFiles{"listen": s.TLS, "admin-listen": s.AdminTLS} {
			if _, err := newCertificate(name, files); err != nil {
				faults = append(faults, s.bySource(err))
			}
		}
		if _, err := geoip.Open(s.GeoIPDir); err != nil {
			faults = append(faults, s.bySource(fmt.Errorf("--geoip-dir: %w", err)))
		}
	}
	for _, hint := range s.Hints {
		fmt.Fprintln(p.Out, "hint:", hint)
	}
	for _, fault := range faults {
		p.complain(fault)
	}
	if len(faults) == 0 {
		fmt.Fprintf(p.Out, "The settings file %s is valid.\n", path)
	}
	return len(faults) == 0
}
