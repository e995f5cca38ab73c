package app

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// Settings are what one node is started with. Each comes from a flag, or else
// its environment variable, or else the file named by --config, or else its
// default. Settings that all nodes must share live in the database instead.
type Settings struct {
	Listen      string // where checks are answered
	AdminListen string // where the admin API, the pages and the metrics are

	RedisURL    string // "" with DatabaseURL "": embedded
	DatabaseURL string
	DataDir     string
	RedisPrefix string

	AdminToken    string // the bootstrap admin token, "" to have one made
	AdminPassword string // of the user admin of the first start, "" to have one made
	CheckAuth     string // "off" or "token"; "" is off, and only for loopback

	TLS      TLSFiles // of the check listener
	AdminTLS TLSFiles

	// AdminInsecure allows an admin listener that other machines reach without
	// TLS.
	AdminInsecure       bool
	AllowedHosts        httpserver.AllowedHosts
	TrustedProxies      httpserver.TrustedProxies
	ClientAddressHeader httpserver.AddressHeader

	CheckDeadline time.Duration
	// AllowRedisEviction starts on a Redis that may evict logs, too.
	AllowRedisEviction bool
	// ReadyRedisTimeout is after how long without Redis the node is not ready,
	// 0 for never.
	ReadyRedisTimeout time.Duration
	DrainTimeout      time.Duration
	LogLevel          string
	LogFormat         string
	NodeName          string

	Notify    NotifySettings
	Schedules map[string]string // of jobs, by name; "off" never runs one

	SafetyLimit offences.SafetyLimitSettings
	Proposals   offences.ProposalSettings
	Counts      offences.Retention
	KeepAudit   time.Duration // and runs, notifications, and blocks that ended
}

// NotifySettings name the channels that people are told over; an empty one is
// not used.
type NotifySettings struct {
	WebhookURL    string
	WebhookSecret string
	SlackURL      string
	SMTPURL       string
	EmailFrom     string
	EmailTo       []string
	AllowPrivate  bool   // let the webhooks reach private addresses
	Pages         string // the URL of the admin pages, for links; "" for none
}

// TLSFiles name a certificate and its key in PEM. Both are empty for plain
// HTTP.
type TLSFiles struct{ Cert, Key string }

// Enabled reports whether TLS is on.
func (t TLSFiles) Enabled() bool { return t.Cert != "" }

// Embedded reports whether the logs are in memory and the database is SQLite
// in the data directory.
func (s Settings) Embedded() bool { return s.RedisURL == "" }

// option is one setting as people write it.
type option struct {
	name   string // the flag; the variable is STINT_ and the name in capitals
	preset string
	help   string
	secret bool // from the environment or the file only: flags show in ps
}

func (o option) variable() string {
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

var options = []option{
	{name: "listen", preset: "127.0.0.1:8080", help: "where checks are answered"},
	{name: "admin-listen", preset: "127.0.0.1:8081", help: "where the admin API, the pages and the metrics are"},
	{name: "redis-url", help: "Redis 7+ or Valkey for the logs, with --database-url: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"},
	{name: "database-url", help: "Postgres 14+ for everything else, with --redis-url: postgres://"},
	{name: "data-dir", preset: "./data", help: "where the embedded database and the snapshot of the logs are kept; with --database-url, the last policies and blocks known"},
	{name: "redis-prefix", preset: "stint", help: "what the names of all Redis keys begin with"},
	{name: "admin-token", secret: true, help: "the bootstrap admin token; without it one is made on the first start and printed once"},
	{name: "admin-password", secret: true, help: "the password of the user admin, who is made on the first start; without it one is made and printed once"},
	{name: "check-auth", help: "off or token: whether checks need a bearer token; must be given to listen on anything but loopback"},
	{name: "tls-cert", help: "certificate of the check listener, PEM"},
	{name: "tls-key", help: "its key, PEM"},
	{name: "admin-tls-cert", help: "certificate of the admin listener, PEM"},
	{name: "admin-tls-key", help: "its key, PEM"},
	{name: "admin-insecure", preset: "false", help: "true lets the admin listener be reached from other machines without TLS, which only a private network or a TLS proxy in front makes safe"},
	{name: "allowed-hosts", help: "host names, with commas between, under which requests without a token are answered, besides addresses and localhost; *.example.com for all below it, * for any"},
	{name: "trusted-proxies", help: "addresses and networks, with commas between, whose client address header is believed"},
	{name: "client-address-header", preset: "X-Forwarded-For", help: "the one header in which the trusted proxies write the client's address: X-Forwarded-For, Forwarded, or one that holds a single address such as X-Real-IP"},
	{name: "check-deadline", preset: "100ms", help: "how long a check waits for Redis before the policy's on_failure answers"},
	{name: "allow-redis-eviction", preset: "false", help: "true starts on a Redis whose maxmemory-policy lets it evict logs, and so lift limits silently"},
	{name: "ready-redis-timeout", preset: "0s", help: "after how long without any Redis server /readyz answers 503; 0s for never"},
	{name: "drain-timeout", preset: "10s", help: "how long open requests may take after SIGTERM"},
	{name: "log-level", preset: "info", help: "debug, info, warn or error"},
	{name: "log-format", preset: "text", help: "text or json"},
	{name: "notify-webhook-url", secret: true, help: "a webhook that is told of automatic blocks, proposals, outages and reports"},
	{name: "notify-webhook-secret", secret: true, help: "signs what the webhook is sent, see docs/NOTIFICATIONS.md"},
	{name: "notify-slack-url", secret: true, help: "an incoming webhook of Slack or what speaks like it"},
	{name: "notify-smtp-url", secret: true, help: "smtp://user:password@host:587, smtps:// or smtp+plain://, to send mail over"},
	{name: "notify-email-from", help: "the sender of mail"},
	{name: "notify-email-to", help: "the receivers of mail, with commas between"},
	{name: "notify-pages-url", help: "the URL under which people reach the admin pages; notifications link to them"},
	{name: "notify-allow-private", preset: "false", help: "true lets the webhooks reach private addresses"},
	{name: "schedules", help: "schedules of jobs in UTC, with semicolons between: daily-report=0 6 * * *; weekly-report=off"},
	{name: "escalation-safety-limit", preset: "20%", help: "the share of the keys seen within an hour beyond which an escalation stops and waits for a person"},
	{name: "proposal-min-addresses", preset: "8", help: "how many addresses of an IPv4 /24, or /64s of an IPv6 /48, must offend before a block of the range is proposed"},
	{name: "proposal-window", preset: "10m", help: "the time in which they must offend"},
	{name: "keep-minutes", preset: "30d", help: "how long offences and traffic are kept by the minute"},
	{name: "keep-hours", preset: "400d", help: "how long by the hour"},
	{name: "keep-days", preset: "1825d", help: "how long by the day"},
	{name: "keep-audit", preset: "730d", help: "how long the audit, runs of jobs, notifications and ended blocks are kept"},
	{name: "node-name", help: "what this node is called in logs and pages; the host's name when empty"},
}

// ErrHelp is returned by Load when the usage or the version was asked for and
// printed.
var ErrHelp = pflag.ErrHelp

// Load reads the settings from the command line's arguments, the environment
// and the file, and checks them. Its errors are one line each.
func Load(args, environ []string) (Settings, error) {
	flags := newFlags()
	if err := flags.Parse(args); err != nil {
		return Settings{}, err
	}
	if asked, _ := flags.GetBool("version"); asked {
		fmt.Fprintln(os.Stdout, buildinfo.Read())
		return Settings{}, ErrHelp
	}
	if flags.NArg() > 0 {
		return Settings{}, fmt.Errorf("%q is not a setting; settings are flags such as --listen, see --help", flags.Arg(0))
	}
	values, err := gather(flags, environ)
	if err != nil {
		return Settings{}, err
	}
	return build(values)
}

func newFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags.SortFlags = false
	for _, o := range options {
		if !o.secret {
			flags.String(o.name, o.preset, o.help+" ("+o.variable()+")")
		}
	}
	flags.String("config", "", "a YAML file of settings (STINT_CONFIG)")
	flags.Bool("version", false, "say which build this is")
	flags.Usage = func() {
		fmt.Fprintf(os.Stdout, "Stint answers whether a key may do one more request, and keeps abusers out.\n\nUsage: server [flags]\n\nWith no flags it runs on this machine alone: logs in memory, SQLite in ./data.\n\n%s\nA flag wins over its environment variable, which wins over the file.\nFrom the environment or the file only: %s.\n", flags.FlagUsages(), strings.Join(secrets(), ", "))
	}
	return flags
}

// secrets returns the variables of the settings that are no flags.
func secrets() []string {
	var names []string
	for _, o := range options {
		if o.secret {
			names = append(names, o.variable())
		}
	}
	return names
}

// gather lays flags over environment over file over defaults.
func gather(flags *pflag.FlagSet, environ []string) (map[string]string, error) {
	known := map[string]string{"STINT_CONFIG": "config"}
	for _, o := range options {
		known[o.variable()] = o.name
	}
	k := koanf.New("\x00") // no setting has parts
	environment := env.Provider("\x00", env.Opt{
		Prefix:      "STINT_",
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			return known[name], value
		},
	})
	if path := configPath(flags, environ); path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return nil, fmt.Errorf("the settings file %s: %s", path, oneLine(err))
		}
		for _, name := range k.Keys() {
			if !slices.ContainsFunc(options, func(o option) bool { return o.name == name }) {
				return nil, fmt.Errorf("the settings file %s: there is no setting %q; see --help for those there are", path, name)
			}
		}
	}
	if err := k.Load(environment, nil); err != nil {
		return nil, err
	}
	if err := k.Load(posflag.Provider(flags, "\x00", k), nil); err != nil {
		return nil, err
	}
	values := make(map[string]string, len(options))
	for _, o := range options {
		values[o.name] = strings.TrimSpace(k.String(o.name))
		if values[o.name] == "" {
			values[o.name] = o.preset
		}
	}
	return values, nil
}

func configPath(flags *pflag.FlagSet, environ []string) string {
	if path, _ := flags.GetString("config"); path != "" {
		return path
	}
	for _, pair := range environ {
		if path, found := strings.CutPrefix(pair, "STINT_CONFIG="); found {
			return path
		}
	}
	return ""
}

func build(v map[string]string) (Settings, error) {
	s := Settings{
		Listen: v["listen"], AdminListen: v["admin-listen"],
		RedisURL: v["redis-url"], DatabaseURL: v["database-url"],
		DataDir: v["data-dir"], RedisPrefix: v["redis-prefix"],
		AdminToken: v["admin-token"], AdminPassword: v["admin-password"], CheckAuth: v["check-auth"],
		TLS:      TLSFiles{v["tls-cert"], v["tls-key"]},
		AdminTLS: TLSFiles{v["admin-tls-cert"], v["admin-tls-key"]},
		LogLevel: v["log-level"], LogFormat: v["log-format"], NodeName: v["node-name"],
	}
	if s.NodeName == "" {
		s.NodeName, _ = os.Hostname()
	}
	var err error
	if s.CheckDeadline, err = parseWait("check-deadline", v["check-deadline"], time.Millisecond, 10*time.Second); err != nil {
		return Settings{}, err
	}
	if s.AllowRedisEviction, err = strconv.ParseBool(v["allow-redis-eviction"]); err != nil {
		return Settings{}, fmt.Errorf("--allow-redis-eviction is %q; it must be true or false", v["allow-redis-eviction"])
	}
	if s.ReadyRedisTimeout, err = parseWait("ready-redis-timeout", v["ready-redis-timeout"], 0, 24*time.Hour); err != nil {
		return Settings{}, err
	}
	if s.DrainTimeout, err = parseWait("drain-timeout", v["drain-timeout"], 0, 10*time.Minute); err != nil {
		return Settings{}, err
	}
	if s.TrustedProxies, err = httpserver.ParseTrustedProxies(v["trusted-proxies"]); err != nil {
		return Settings{}, fmt.Errorf("--trusted-proxies: %w", err)
	}
	if s.ClientAddressHeader, err = httpserver.ParseAddressHeader(v["client-address-header"]); err != nil {
		return Settings{}, fmt.Errorf("--client-address-header: %w", err)
	}
	if s.AllowedHosts, err = httpserver.ParseAllowedHosts(v["allowed-hosts"]); err != nil {
		return Settings{}, fmt.Errorf("--allowed-hosts: %w", err)
	}
	if s.AdminInsecure, err = parseBool("admin-insecure", v["admin-insecure"]); err != nil {
		return Settings{}, err
	}
	if s.Notify, err = buildNotify(v); err != nil {
		return Settings{}, err
	}
	if s.Schedules, err = parseSchedules(v["schedules"]); err != nil {
		return Settings{}, err
	}
	if err := s.setDetection(v); err != nil {
		return Settings{}, err
	}
	return s, s.validate()
}

// setDetection reads what the offenders' part is told.
func (s *Settings) setDetection(v map[string]string) error {
	share, err := strconv.ParseFloat(strings.TrimSuffix(v["escalation-safety-limit"], "%"), 64)
	if err != nil || !strings.HasSuffix(v["escalation-safety-limit"], "%") || share <= 0 || share > 100 {
		return fmt.Errorf("--escalation-safety-limit is %q; it must be a share such as 20%%", v["escalation-safety-limit"])
	}
	s.SafetyLimit.Ratio = share / 100
	if s.Proposals.MinAddresses, err = strconv.Atoi(v["proposal-min-addresses"]); err != nil || s.Proposals.MinAddresses < 2 || s.Proposals.MinAddresses > 256 {
		return fmt.Errorf("--proposal-min-addresses is %q; it must be a whole number from 2 to 256", v["proposal-min-addresses"])
	}
	s.Proposals.MinNetworks = s.Proposals.MinAddresses
	for name, to := range map[string]*time.Duration{
		"proposal-window": &s.Proposals.Window, "keep-minutes": &s.Counts.Minutes, "keep-hours": &s.Counts.Hours,
		"keep-days": &s.Counts.Days, "keep-audit": &s.KeepAudit,
	} {
		if *to, err = rules.ParseDuration(v[name]); err != nil || *to < time.Minute {
			return fmt.Errorf("--%s is %q; it must be a duration of a minute or more, for example 30d", name, v[name])
		}
	}
	return nil
}

func parseBool(name, text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, fmt.Errorf("--%s is %q; it must be true or false", name, text)
	}
	return text == "true", nil
}

func buildNotify(v map[string]string) (NotifySettings, error) {
	n := NotifySettings{
		WebhookURL: v["notify-webhook-url"], WebhookSecret: v["notify-webhook-secret"], SlackURL: v["notify-slack-url"],
		SMTPURL: v["notify-smtp-url"], EmailFrom: v["notify-email-from"], AllowPrivate: v["notify-allow-private"] == "true",
		Pages: strings.TrimRight(v["notify-pages-url"], "/"),
	}
	if !slices.Contains([]string{"true", "false"}, v["notify-allow-private"]) {
		return n, fmt.Errorf("--notify-allow-private is %q; it must be true or false", v["notify-allow-private"])
	}
	for _, to := range strings.Split(v["notify-email-to"], ",") {
		if to = strings.TrimSpace(to); to != "" {
			n.EmailTo = append(n.EmailTo, to)
		}
	}
	for name, target := range map[string]string{"STINT_NOTIFY_WEBHOOK_URL": n.WebhookURL, "STINT_NOTIFY_SLACK_URL": n.SlackURL, "STINT_NOTIFY_PAGES_URL": n.Pages} {
		if u, err := url.Parse(target); target != "" && (err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http")) {
			return n, fmt.Errorf("%s is not a URL that can be called; write for example https://example.com/hook", name)
		}
	}
	return n, nil
}

func parseSchedules(text string) (map[string]string, error) {
	schedules := map[string]string{}
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, schedule, found := strings.Cut(part, "=")
		if !found {
			return nil, fmt.Errorf("--schedules holds %q; write name=schedule, for example daily-report=0 6 * * *", part)
		}
		schedules[strings.TrimSpace(name)] = strings.TrimSpace(schedule)
	}
	return schedules, nil
}

func parseWait(name, text string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("--%s is %q; it must be a duration from %s to %s, for example 100ms", name, text, least, most)
	}
	return d, nil
}

func (s Settings) validate() error {
	for _, check := range []func(Settings) error{validateListeners, validateBackends, validateTLS, validateWords} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func validateListeners(s Settings) error {
	for name, address := range map[string]string{"listen": s.Listen, "admin-listen": s.AdminListen} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("--%s is %q; write host:port, for example 127.0.0.1:8080", name, address)
		}
	}
	if s.Listen == s.AdminListen && !strings.HasSuffix(s.Listen, ":0") {
		return fmt.Errorf("--listen and --admin-listen are both %s; what clients reach must not be what operators use, give each its own port", s.Listen)
	}
	if !s.AdminTLS.Enabled() && !s.AdminInsecure && !isLoopback(s.AdminListen) {
		return fmt.Errorf("--admin-listen %s is reached from other machines, and without TLS they send passwords and tokens in the clear: give --admin-tls-cert and --admin-tls-key, or --admin-insecure true where a private network or a TLS proxy in front protects it", s.AdminListen)
	}
	switch s.CheckAuth {
	case "off", "token":
	case "":
		if !isLoopback(s.Listen) {
			return fmt.Errorf("--listen %s is reached from other machines, so --check-auth must say whether checks need a token: off or token", s.Listen)
		}
	default:
		return fmt.Errorf("--check-auth is %q; it must be off or token", s.CheckAuth)
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
	}
	if u, err := url.Parse(s.DatabaseURL); err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return errors.New("--database-url is not a URL of Postgres; write postgres://user@host:5432/stint")
	}
	u, err := url.Parse(s.RedisURL)
	if err != nil || !slices.Contains([]string{"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}, u.Scheme) {
		return errors.New("--redis-url is not a URL of Redis; write redis://host:6379/0, or rediss:// for TLS")
	}
	if s.RedisPrefix == "" || strings.ContainsAny(s.RedisPrefix, "{}: \t\n") {
		return fmt.Errorf("--redis-prefix is %q; it must be a word without braces, colons and spaces", s.RedisPrefix)
	}
	return nil
}

func validateTLS(s Settings) error {
	for prefix, files := range map[string]TLSFiles{"--tls": s.TLS, "--admin-tls": s.AdminTLS} {
		if (files.Cert == "") != (files.Key == "") {
			return fmt.Errorf("%s-cert and %s-key belong together: give both or neither", prefix, prefix)
		}
	}
	return nil
}

func validateWords(s Settings) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, s.LogLevel) {
		return fmt.Errorf("--log-level is %q; it must be debug, info, warn or error", s.LogLevel)
	}
	if !slices.Contains([]string{"text", "json"}, s.LogFormat) {
		return fmt.Errorf("--log-format is %q; it must be text or json", s.LogFormat)
	}
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

// oneLine returns an error's text without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Setting is one setting as the pages show it.
type Setting struct{ Name, Variable, Value, Help string }

// Shown returns the settings for people to read, secrets hidden.
func (s Settings) Shown() []Setting {
	values := map[string]string{
		"listen": s.Listen, "admin-listen": s.AdminListen, "redis-url": redact(s.RedisURL),
		"database-url": redact(s.DatabaseURL), "data-dir": s.DataDir, "redis-prefix": s.RedisPrefix,
		"check-auth": s.CheckAuth, "tls-cert": s.TLS.Cert, "tls-key": s.TLS.Key,
		"admin-tls-cert": s.AdminTLS.Cert, "admin-tls-key": s.AdminTLS.Key,
		"allow-redis-eviction": strconv.FormatBool(s.AllowRedisEviction), "ready-redis-timeout": s.ReadyRedisTimeout.String(),
		"check-deadline": s.CheckDeadline.String(), "drain-timeout": s.DrainTimeout.String(),
		"log-level": s.LogLevel, "log-format": s.LogFormat, "node-name": s.NodeName,
	}
	var proxies []string
	for _, p := range s.TrustedProxies {
		proxies = append(proxies, p.String())
	}
	values["admin-insecure"], values["allowed-hosts"] = strconv.FormatBool(s.AdminInsecure), s.AllowedHosts.String()
	values["client-address-header"] = string(s.ClientAddressHeader)
	values["trusted-proxies"] = strings.Join(proxies, ", ")
	values["notify-email-from"], values["notify-email-to"] = s.Notify.EmailFrom, strings.Join(s.Notify.EmailTo, ", ")
	values["notify-pages-url"] = s.Notify.Pages
	values["notify-allow-private"] = strconv.FormatBool(s.Notify.AllowPrivate)
	var schedules []string
	for _, name := range slices.Sorted(maps.Keys(s.Schedules)) {
		schedules = append(schedules, name+"="+s.Schedules[name])
	}
	values["schedules"] = strings.Join(schedules, "; ")
	values["escalation-safety-limit"] = strconv.FormatFloat(s.SafetyLimit.Ratio*100, 'g', -1, 64) + "%"
	values["proposal-min-addresses"] = strconv.Itoa(s.Proposals.MinAddresses)
	for name, d := range map[string]time.Duration{
		"proposal-window": s.Proposals.Window, "keep-minutes": s.Counts.Minutes, "keep-hours": s.Counts.Hours,
		"keep-days": s.Counts.Days, "keep-audit": s.KeepAudit,
	} {
		values[name] = rules.FormatDuration(d)
	}
	for name, secret := range map[string]string{
		"admin-token": s.AdminToken, "admin-password": s.AdminPassword, "notify-webhook-url": s.Notify.WebhookURL, "notify-webhook-secret": s.Notify.WebhookSecret,
		"notify-slack-url": s.Notify.SlackURL, "notify-smtp-url": s.Notify.SMTPURL,
	} {
		if secret != "" {
			values[name] = "set, not shown"
		}
	}
	shown := make([]Setting, 0, len(options))
	for _, o := range options {
		shown = append(shown, Setting{Name: o.name, Variable: o.variable(), Value: values[o.name], Help: o.help})
	}
	return shown
}

// redact hides the password of a URL, also where it stands in the query.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "set, not shown"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") {
			query.Set(name, "xxxxx")
		}
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}
