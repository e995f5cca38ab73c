package app

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/doors/envoy"
	"github.com/stint-dev/stint/internal/doors/forwardauth"
	"github.com/stint-dev/stint/internal/eventlog"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/openid"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/proxies"
)

// Settings are the settings of one node; see Load. Settings that all nodes share are
// in the database instead.
type Settings struct {
	Listen      string // address of the checks
	AdminListen string // address of the admin API, the pages and the metrics
	GRPCListen  string // address of Envoy's services over gRPC, "" for none
	// GRPCReflection describes the gRPC services to clients.
	GRPCReflection bool

	RedisURL    string // "" if DatabaseURL is "" too: embedded
	DatabaseURL string
	DataDir     string
	BackupDir   string // "" for no scheduled backups
	BackupKeep  int
	RedisPrefix string
	MaxMemory   int64 // bytes for the logs in memory; 0 for a third of the machine's

	AdminToken    string // the bootstrap admin token, "" to generate one
	AdminPassword string // of the first user, "" to generate one
	OpenID        openid.Settings
	// PasswordUsers are the only users who may log in with a password, nil for all.
	PasswordUsers []string
	CheckAuth     string // "off" or "token"; "" is off, only allowed on loopback
	RequireTOTP   identity.TOTPRoles

	TLS      TLSFiles // of the check listener and the gRPC listener
	AdminTLS TLSFiles

	AdminInsecure       bool // allow a public admin listener without TLS
	AllowedHosts        httpserver.AllowedHosts
	TrustedProxies      proxies.Trusted
	ClientAddressHeader httpserver.AddressHeader
	ForwardTokenHeader  httpserver.TokenHeader // header with the check token of a proxy at /v1/forward
	JA4Header           string                 // header with the fingerprint of the TLS of a proxy's client, "" for none
	Challenge           challenge.Options      // without Secret and Now
	SiteHosts           httpserver.AllowedHosts

	CheckDeadline      time.Duration
	GRPCDeadline       time.Duration // of Envoy's Rate Limit Service
	AllowRedisEviction bool          // start even if Redis may evict logs
	ReadyRedisTimeout  time.Duration // how long without Redis until a node is not ready, 0 for never
	DrainTimeout       time.Duration
	LogLevel           string
	LogFormat          string
	CheckLogRatio      float64 // ratio of door requests in the access log
	RecordPaths        bool    // record the paths of requests in the database
	RecordAgents       bool    // record which programs requests say they are from
	Trace              TraceSettings
	EventLog           eventlog.Settings
	NodeName           string
	openPages          bool // the pages ask for no password: only in the demo, which listens on this machine only

	Notify    NotifySettings
	Schedules map[string]string // of jobs, by name; "off" never runs one

	SafetyLimit      float64 // see offences.AllowedBlocks
	Proposals        offences.ProposalSettings
	Counts           offences.Retention
	Presets          presets.Set     // of a new database
	LearnSites       bool            // from reports that say the status of an answer
	VerifiedCrawlers []bots.Operator // whose missing pages do not count
	FetchBotKeys     bool            // fetch the keys of bots that sign their requests
	GeoIPDir         string          // folder of the files with the origins of addresses, "" for none
	ReverseDNS       bool            // look up the names of addresses shown to people
	KeepAudit        time.Duration   // also for runs, notifications, and ended blocks, tokens and proposals

	// sources are how errors name the settings that are given otherwise than by their flag, by name.
	sources map[string]string

	Hints []string // about the settings file and unknown variables, one line each
}

// TraceSettings define where spans are sent. If Endpoint is "", none are.
type TraceSettings struct {
	Endpoint string
	Ratio    float64
}

// NotifySettings are the settings of the notification channels. A channel with empty settings
// is not used.
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

// TLSFiles are the files of a certificate and its key in PEM. Both are empty for
// plain HTTP.
type TLSFiles struct{ Cert, Key string }

// Enabled reports whether TLS is on.
func (t TLSFiles) Enabled() bool { return t.Cert != "" }

// Embedded reports whether the logs are in memory and the database is SQLite
// in the data directory.
func (s Settings) Embedded() bool { return s.RedisURL == "" }

// option is one setting as operators specify it.
type option struct {
	subject string // what it is about; neighbours have the same
	name    string // the flag; the variable is STINT_ and the name in upper case
	preset  string
	help    string
	secret  bool // no flag, since ps shows flags
	// credential means that it may contain a password. A credential or a secret may be in its
	// own file, named by the setting with the suffix fileSuffix.
	credential bool
	value      value
}

func (o *option) variable() string {
	return variableOf(o.name)
}

func variableOf(name string) string {
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// readsFile reports whether the setting may be in a file of its own.
func (o *option) readsFile() bool { return o.secret || o.credential }

// label returns the name of the setting in errors.
func (o *option) label() string {
	if o.secret {
		return o.variable()
	}
	return "--" + o.name
}

// about returns options with their subject.
func about(subject string, options ...option) []option {
	for i := range options {
		options[i].subject = subject
	}
	return options
}

// options returns all settings in the order of the help, each with its field of s.
func (s *Settings) options() []option {
	n, o := &s.Notify, &s.OpenID
	return slices.Concat(
		about("Listeners and TLS",
			option{name: "listen", preset: "127.0.0.1:8080", value: text(&s.Listen), help: "where checks are answered"},
			option{name: "admin-listen", preset: "127.0.0.1:8081", value: text(&s.AdminListen), help: "where the admin API, the pages and the metrics are"},
			option{name: "grpc-listen", value: text(&s.GRPCListen), help: "where Envoy's rate limit and ext_authz services are answered over gRPC, and the former as JSON at /json of the check listener; off when empty"},
			option{name: "grpc-reflection", preset: "false", value: flag(&s.GRPCReflection), help: "true describes the gRPC services to clients such as grpcurl, which have to send a check token as for checks"},
			option{name: "check-auth", value: text(&s.CheckAuth), help: "whether checks need a bearer token: off or token; must be given to listen on anything but loopback"},
			option{name: "tls-cert", value: text(&s.TLS.Cert), help: "certificate of the check listener and of --grpc-listen, PEM"},
			option{name: "tls-key", value: text(&s.TLS.Key), help: "its key, PEM"},
			option{name: "admin-tls-cert", value: text(&s.AdminTLS.Cert), help: "certificate of the admin listener, PEM"},
			option{name: "admin-tls-key", value: text(&s.AdminTLS.Key), help: "its key, PEM"},
			option{name: "admin-insecure", preset: "false", value: flag(&s.AdminInsecure), help: "true lets the admin listener be reached from other machines without TLS, which only a private network or a TLS proxy in front makes safe"},
			option{name: "allowed-hosts", value: parsed(&s.AllowedHosts, httpserver.ParseAllowedHosts), help: "host names, with commas between, under which requests without a token are answered, besides addresses and localhost; *.example.com for all below it, * for any"},
			option{name: "node-name", value: text(&s.NodeName), help: "the name of this node in logs and pages; the host's name when empty"},
		),
		about("Storage",
			option{name: "redis-url", credential: true, value: address(&s.RedisURL), help: "Redis 7+ or Valkey for the logs, with --database-url: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"},
			option{name: "database-url", credential: true, value: address(&s.DatabaseURL), help: "Postgres 14+ for everything else, with --redis-url: postgres://"},
			option{name: "redis-prefix", preset: "stint", value: text(&s.RedisPrefix), help: "what the names of all Redis keys begin with"},
			option{name: "allow-redis-eviction", preset: "false", value: flag(&s.AllowRedisEviction), help: "true starts on a Redis whose maxmemory-policy lets it evict logs, and so lift limits silently"},
			option{name: "data-dir", preset: "./data", value: text(&s.DataDir), help: "where the embedded database and the snapshot of the logs are kept; with --database-url, the last policies and blocks known"},
			option{name: "max-memory", preset: "auto", value: memory(&s.MaxMemory), help: "how much memory the logs of keys may take on this node, as 512MiB or 4GiB; beyond it the keys that were idle longest are forgotten, but none that is refused or blocked; auto is a third of what the machine or the container has"},
			option{name: "preset", value: parsed(&s.Presets, presets.ParseSet), help: "the presets, with commas between, whose policies a new database begins with: " + strings.Join(presets.Names(), ", ") + "; without one it begins with the policy default in shadow mode, which refuses nobody"},
			option{name: "backup-dir", value: text(&s.BackupDir), help: "the folder into which the job back-up writes a backup of the embedded data every night; none is written when empty"},
			option{name: "backup-keep", preset: "7", value: number(&s.BackupKeep, 1, 1000), help: "how many backups the job keeps there"},
		),
		about("Logins",
			option{name: "admin-token", secret: true, value: text(&s.AdminToken), help: "the bootstrap admin token; without it one is generated on the first start and printed once"},
			option{name: "admin-password", secret: true, value: text(&s.AdminPassword), help: "the password of the user admin, who is added on the first start; without it one is generated and printed once"},
			option{name: "password-login", preset: "all", value: passwordUsers(&s.PasswordUsers), help: "who may log in with a password: all, or with --oidc-issuer the names of the only users, with commas between: one for emergencies"},
			option{name: "require-totp", preset: "none", value: parsed(&s.RequireTOTP, identity.ParseTOTPRoles), help: "which users of the pages must have two-factor authentication: none, admin, operator for operators and admins, or all; a user without it may only set it up"},
			option{name: "oidc-issuer", value: text(&o.Issuer), help: "the OpenID Connect provider that people log in with, exactly as its metadata write it, for example https://id.example.com; off when empty; see docs/OIDC.md"},
			option{name: "oidc-client-id", value: text(&o.ClientID), help: "the id that the provider gave this client"},
			option{name: "oidc-client-secret", secret: true, value: text(&o.ClientSecret), help: "the secret that the provider gave this client"},
			option{name: "oidc-redirect-url", value: text(&o.RedirectURL), help: "where the provider sends browsers back to, https://NAME" + openid.CallbackPath + "; that path below --notify-pages-url when empty"},
			option{name: "oidc-scopes", preset: "openid,profile,email", value: list(&o.Scopes), help: "what the provider is asked for, with commas between; some send groups only with a scope groups"},
			option{name: "oidc-groups-claim", preset: "groups", value: text(&o.GroupsClaim), help: "the claim with the groups of a user, with a dot for one within another: realm_access.roles"},
			option{name: "oidc-name-claim", preset: "preferred_username", value: text(&o.NameClaim), help: "the claim with the name of a user; without it the e-mail address or the name"},
			option{name: "oidc-roles", value: parsed(&o.Roles, openid.ParseRoleMap), help: "the role of each group, group=role with semicolons between: stint-admins=admin; staff=viewer; the highest role of a user's groups applies, and a user without one is refused"},
			option{name: "oidc-label", preset: "Log in with single sign-on", value: text(&o.Label), help: "the label of the button on the login page"},
		),
		about("Gateways and proxies",
			option{name: "trusted-proxies", value: parsed(&s.TrustedProxies, proxies.Parse), help: "addresses and networks, with commas between, whose client address header is trusted"},
			option{name: "client-address-header", preset: "X-Forwarded-For", value: parsed(&s.ClientAddressHeader, httpserver.ParseAddressHeader), help: "the one header in which the trusted proxies write the client's address: X-Forwarded-For, Forwarded, or one that holds a single address such as X-Real-IP"},
			option{name: "ja4-header", value: headerName(&s.JA4Header), help: "the header in which trusted proxies send the JA4 fingerprint of their client's TLS, for conditions on ja4; they must set it in place of what the client sends"},
			option{name: "forward-token-header", preset: forwardauth.DefaultTokenHeader, value: parsed(&s.ForwardTokenHeader, httpserver.ParseTokenHeader), help: "the header in which proxies that ask /v1/forward send their check token; never Authorization, which is their client's"},
			option{name: "site-hosts", value: parsed(&s.SiteHosts, httpserver.ParseAllowedHosts), help: "the host names of the sites that gateways serve, with commas between: those for which bots sign their requests, and whose visitors' answers Turnstile or hCaptcha may report; *.example.com for all below it, * for any; no signature verifies a bot when empty"},
		),
		about("Challenges and visitors",
			option{name: "challenge-difficulty", preset: strconv.Itoa(challenge.DefaultDifficulty), value: number(&s.Challenge.Difficulty, 1, challenge.MaxDifficulty), help: "how much work a challenge is: each number doubles it, and 17 is about a second on a phone of 2018"},
			option{name: "challenge-wait", preset: challenge.DefaultWait.String(), value: duration(&s.Challenge.Wait, time.Second, 10*time.Minute), help: "how long a challenged browser without JavaScript waits, in whole seconds"},
			option{name: "challenge-pass", preset: "12h", value: duration(&s.Challenge.PassFor, time.Hour, 30*24*time.Hour), help: "how long the pass of a solved challenge holds"},
			option{name: "challenge-passes", preset: strconv.Itoa(challenge.DefaultPasses), value: number(&s.Challenge.Passes, 1, 10_000), help: "how many passes one address may earn an hour; who solves more challenges there shares one pass"},
			option{name: "challenge-bind", preset: "false", value: flag(&s.Challenge.Bind), help: "true makes a pass hold only in the IPv4 /24 or IPv6 /48 in which it was earned"},
			option{name: "challenge-captcha", preset: string(challenge.NoCaptcha), value: oneOf((*string)(&s.Challenge.Captcha.Provider), string(challenge.NoCaptcha), string(challenge.Altcha), string(challenge.Turnstile), string(challenge.HCaptcha)), help: "the captcha that challenges are, in place of work and waiting: off, altcha, which Stint makes itself, turnstile or hcaptcha; see docs/CHALLENGE.md"},
			option{name: "challenge-captcha-site-key", value: text(&s.Challenge.Captcha.SiteKey), help: "the site key that Turnstile or hCaptcha gave"},
			option{name: "challenge-captcha-secret", secret: true, value: text(&s.Challenge.Captcha.Secret), help: "the secret that Turnstile or hCaptcha gave"},
			option{name: "challenge-captcha-verify-url", value: plainHook(&s.Challenge.Captcha.VerifyURL, ""), help: "where answers are verified in place of Turnstile's or hCaptcha's own URL, such as a proxy of it; that URL when empty"},
			option{name: "challenge-captcha-outage", preset: "work", value: oneOf(&s.Challenge.Captcha.Outage, "work", challenge.RefuseInOutage), help: "what becomes of visitors whose answers cannot be verified while Turnstile or hCaptcha does not answer: work lets their browsers work instead, refuse asks them to try again later"},
			option{name: "contact", value: text(&s.Challenge.Contact), help: "whom refused and challenged visitors can ask, on the pages that they see: a mail address, an https URL or a sentence"},
		),
		about("Deadlines",
			option{name: "check-deadline", preset: "100ms", value: duration(&s.CheckDeadline, time.Millisecond, 10*time.Second), help: "how long a check waits for Redis before the policy's on_failure answers"},
			option{name: "grpc-deadline", preset: envoy.DefaultDeadline.String(), value: duration(&s.GRPCDeadline, time.Millisecond, 10*time.Second), help: "how long Envoy's rate limit service waits for Redis before the policy's on_failure answers; shorter than Envoy's own timeout, 20ms unless configured"},
			option{name: "ready-redis-timeout", preset: "0s", value: duration(&s.ReadyRedisTimeout, 0, 24*time.Hour), help: "after how long without any Redis server /readyz answers 503; 0s for never"},
			option{name: "drain-timeout", preset: "10s", value: duration(&s.DrainTimeout, 0, 10*time.Minute), help: "how long open requests may take after SIGTERM"},
		),
		about("Logs and traces",
			option{name: "log-level", preset: "info", value: oneOf(&s.LogLevel, "debug", "info", "warn", "error"), help: "what is logged: debug, info, warn or error, each with what is worse"},
			option{name: "log-format", preset: "text", value: oneOf(&s.LogFormat, "text", "json"), help: "the form of the log: text or json"},
			option{name: "check-log-ratio", preset: "off", value: ratio(&s.CheckLogRatio), help: "how many of the requests that ask for checks are in the log, with their keys: off or a share such as 1%"},
			option{name: "event-log", value: parsed(&s.EventLog.To, eventlog.ParseTarget), help: "where every refused, blocked and challenged check and every change is written as a line of JSON for other programs: stdout, the path of a file, syslogs://host:6514 or syslog://host:601; nowhere when empty; see docs/OBSERVABILITY.md"},
			option{name: "event-log-allowed", preset: "off", value: ratio(&s.EventLog.Allowed), help: "how many of the allowed checks are written there too: off or a share such as 1%"},
			option{name: "event-log-size", preset: "100MiB", value: size(&s.EventLog.Size), help: "how much disk the file of the event log takes with the four before it, or what waits for syslog"},
			option{name: "event-log-ca", value: text(&s.EventLog.TLS.CA), help: "the certificates that sign that of the syslog receiver, PEM; those of the machine when empty"},
			option{name: "event-log-cert", value: text(&s.EventLog.TLS.Cert), help: "the certificate that this node shows to the syslog receiver, PEM"},
			option{name: "event-log-key", value: text(&s.EventLog.TLS.Key), help: "its key, PEM"},
			option{name: "trace-endpoint", value: plainHook(&s.Trace.Endpoint, "; put what the collector asks for into the variable OTEL_EXPORTER_OTLP_HEADERS"), help: "the URL that takes spans over OTLP as protobuf over HTTP, for example http://127.0.0.1:4318/v1/traces; off when empty"},
			option{name: "trace-ratio", preset: "1%", value: ratio(&s.Trace.Ratio), help: "how many of the requests that bring no traceparent are traced: off or a share such as 1%"},
		),
		about("What is recorded and how long",
			option{name: "record-paths", preset: "true", value: flag(&s.RecordPaths), help: "false keeps the paths of requests out of the database: the traffic sample and refusals are recorded without them, and the preview of traps and the page Traffic have no paths to show"},
			option{name: "record-agents", preset: "true", value: flag(&s.RecordAgents), help: "false keeps the agents of requests, and the bots that they name, out of the database: refusals are recorded without them, and the page Traffic has none to show"},
			option{name: "keep-minutes", preset: "30d", value: age(&s.Counts.Minutes), help: "how long offences and traffic are kept by the minute"},
			option{name: "keep-hours", preset: "400d", value: age(&s.Counts.Hours), help: "how long by the hour"},
			option{name: "keep-days", preset: "1825d", value: age(&s.Counts.Days), help: "how long by the day"},
			option{name: "keep-audit", preset: "730d", value: age(&s.KeepAudit), help: "how long the audit, runs of jobs, notifications, ended tokens, decided proposals and ended blocks are kept"},
		),
		about("Notifications",
			option{name: "notify-webhook-url", secret: true, value: hook(&n.WebhookURL), help: "a webhook that receives automatic blocks, proposals, outages and reports"},
			option{name: "notify-webhook-secret", secret: true, value: text(&n.WebhookSecret), help: "signs what the webhook is sent, see docs/NOTIFICATIONS.md"},
			option{name: "notify-slack-url", secret: true, value: hook(&n.SlackURL), help: "an incoming webhook of Slack or a compatible service"},
			option{name: "notify-smtp-url", secret: true, value: text(&n.SMTPURL), help: "the server that mail is sent over: smtp://user:password@host:587, smtps:// or smtp+plain://"},
			option{name: "notify-email-from", value: text(&n.EmailFrom), help: "the sender of mail"},
			option{name: "notify-email-to", value: list(&n.EmailTo), help: "the receivers of mail, with commas between"},
			option{name: "notify-pages-url", value: plainHook(&n.Pages, ""), help: "the URL under which people reach the admin pages; notifications and invitations link to them"},
			option{name: "notify-allow-private", preset: "false", value: flag(&n.AllowPrivate), help: "true lets the webhooks reach private addresses"},
		),
		about("Jobs",
			option{name: "schedules", value: schedules(&s.Schedules), help: "schedules of jobs in UTC, with semicolons between: daily-report=0 6 * * *; weekly-report=off"},
		),
		about("Bots and origins",
			option{name: "verified-crawlers", value: crawlerOperators(&s.VerifiedCrawlers), help: "operators of search engines, for example google,bing, whose crawlers may request missing pages; crawlers are verified by reverse and forward DNS"},
			option{name: "learn-sites", preset: "true", value: flag(&s.LearnSites), help: "false learns nothing of sites from reports that say the status of an answer; see docs/DETECTION.md"},
			option{name: "fetch-bot-keys", preset: "true", value: flag(&s.FetchBotKeys), help: "false fetches no keys of operators whose bots sign their requests, such as https://chatgpt.com, when one comes; see docs/BOTS.md"},
			option{name: "geoip-dir", value: text(&s.GeoIPDir), help: "a directory with files of the MaxMind DB format, *.mmdb of GeoLite2, DB-IP or IPinfo, that know the country and the network of addresses; see docs/GEOIP.md"},
			option{name: "reverse-dns", preset: "false", value: flag(&s.ReverseDNS), help: "true looks up the names in DNS of the addresses that people look at; checks never wait for it"},
		),
		about("Automatic blocks and proposals",
			option{name: "escalation-safety-limit", preset: "20%", value: percentage(&s.SafetyLimit), help: "the share of the keys seen within an hour beyond which an escalation stops and waits for a person; at 100% none does"},
			option{name: "proposal-min-addresses", preset: "8", value: number(&s.Proposals.MinMembers, 2, 256), help: "how many addresses of an IPv4 /24, or /64s of an IPv6 /48, must offend before a block of the range is proposed"},
			option{name: "proposal-min-offences", preset: "2", value: number(&s.Proposals.MinOffences, 1, 1000), help: "how many offences each of these addresses must have"},
			option{name: "proposal-min-refused", preset: "20%", value: percentage(&s.Proposals.MinRefused), help: "what part of the checks of the range must have been refused before a block of it is proposed"},
			option{name: "proposal-window", preset: "10m", value: age(&s.Proposals.Window), help: "the time in which they must offend"},
		),
	)
}

// Setting is one setting as the pages show it.
type Setting struct{ Subject, Name, Variable, Value, Help string }

// Shown returns the settings for display. It hides secrets.
func (s Settings) Shown() []Setting {
	options := s.options()
	shown := make([]Setting, len(options))
	for i, o := range options {
		value := o.value.show()
		if o.secret && value != "" {
			value = hidden
		}
		name := o.name
		if o.secret { // its flag names a file: everyone can read a secret on a command line
			name += fileSuffix
		}
		shown[i] = Setting{Subject: o.subject, Name: name, Variable: o.variable(), Value: value, Help: o.help}
	}
	return shown
}

// ExampleFile returns a settings file with every setting, its purpose and its default.
func ExampleFile() string {
	var s Settings
	text := &strings.Builder{}
	text.WriteString(exampleHead)
	subject := ""
	for _, o := range s.options() {
		if o.subject != subject {
			subject = o.subject
			text.WriteString("\n# ---- " + subject + " ----\n")
		}
		help := o.help + ". Variable: " + o.variable()
		if o.readsFile() {
			help += "; in a file: " + o.name + fileSuffix + ", " + o.variable() + "_FILE or the credential " + o.name
		}
		text.WriteString("\n")
		line := "#"
		for word := range strings.FieldsSeq(strings.ToUpper(help[:1]) + help[1:] + ".") {
			if len(line)+1+len(word) > 100 {
				text.WriteString(line + "\n")
				line = "#"
			}
			line += " " + word
		}
		value := o.preset
		if value == "" {
			value = `""`
		}
		text.WriteString(line + "\n#" + o.name + ": " + value + "\n")
	}
	return text.String()
}

// documentName matches the name of a document in the text of a setting.
var documentName = regexp.MustCompile(`docs/([A-Z_]+\.md)`)

// SettingsPage returns docs/SETTINGS.md: every setting with its variable, its default and its meaning.
func SettingsPage() string {
	var s Settings
	text := &strings.Builder{}
	text.WriteString(settingsHead)
	subject := ""
	for _, o := range s.options() {
		if o.subject != subject {
			subject = o.subject
			text.WriteString("\n## " + subject + "\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n")
		}
		flag, value := "`--"+o.name+"`", "`"+o.preset+"`"
		if o.secret {
			flag = "`--" + o.name + fileSuffix + "`"
		}
		if o.preset == "" {
			value = ""
		}
		help := documentName.ReplaceAllString(strings.ReplaceAll(o.help, "|", "\\|"), "[$1]($1)")
		fmt.Fprintf(text, "| %s | `%s` | %s | %s |\n", flag, o.variable(), value, help)
	}
	return text.String()
}

const settingsHead = `# Settings of stint-server

Written by ` + "`stint-server config reference`" + `; do not edit. A flag takes precedence over its environment variable, which takes precedence over systemd's credential of the
setting's name, which takes precedence over the YAML file that ` + "`--config`" + ` names. [deploy/stint.example.yaml](../deploy/stint.example.yaml) is such a file with every
setting. Secrets, and the URLs of Redis and Postgres, may be in files of their own: [INSTALL.md](INSTALL.md#secrets).
`

const exampleHead = `# Settings of stint-server, for --config or STINT_CONFIG. Every setting is here with its
# default, or "" where it has none. A flag wins over its variable, which wins over this file.
# Validate it with: stint-server config check FILE
# Generated by: stint-server config example
`
