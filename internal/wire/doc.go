// Package wire declares the REST API: its operations (Op), what clients send and what they are
// answered. It imports no package of ours, so that the use cases, the server, the command line and
// the tests share it.
//
// Instants are RFC 3339 in UTC with milliseconds, durations are strings such as "24h"
// or "7d", fields ending in _ms are milliseconds, and what is absent is null.
// Types with rules of their own are those of the domain, and are converted into these.
package wire

// The paths of the API. A name or id in braces is one path segment, percent
// encoded.
const (
	PathCheck        = "/v1/check"
	PathReservations = "/v1/reservations"
	PathHolds        = "/v1/holds"
	PathAlgorithms   = "/v1/algorithms"
	PathBatch        = "/v1/check/batch"
	PathReport       = "/v1/report"
	PathReportBatch  = "/v1/report/batch"
	PathPolicies     = "/v1/policies"
	PathBlocks       = "/v1/blocks"
	PathExemptions   = "/v1/exemptions"
	PathNotes        = "/v1/keys/notes"
	PathLimits       = "/v1/keys/limits"
	PathKeys         = "/v1/keys"
	PathActiveKeys   = "/v1/keys/active"
	PathKeyRequests  = "/v1/keys/requests"
	PathProfiles     = "/v1/profiles"
	PathPlans        = "/v1/plans"
	PathTokens       = "/v1/tokens"
	PathConnect      = "/v1/connect"
	PathPresets      = "/v1/presets"
	PathLists        = "/v1/lists"
	PathUsers        = "/v1/users"
	PathAudit        = "/v1/audit"
	PathWhoami       = "/v1/whoami"
	PathBackup       = "/v1/backup"
	PathRestore      = "/v1/restore"
	PathOffenders    = "/v1/offenders"
	PathOffences     = "/v1/offences"
	PathTraffic      = "/v1/traffic"
	PathAttack       = "/v1/attack"
	PathAttacks      = "/v1/attacks"
	PathEscalations  = "/v1/escalations"
	PathProposals    = "/v1/proposals"
	PathReports      = "/v1/reports"
	PathVersion      = "/v1/version"
	PathNodes        = "/v1/nodes"
	PathBouncers     = "/v1/bouncers"
	PathCrawlers     = "/v1/crawlers"
)
