package wire

// Build is the build of one node.
type Build struct {
	// Version is SemVer with v, "dev" where no tag is known.
	Version string `json:"version"`
	// Commit is the start of the source's, "unknown" where none was recorded.
	Commit string `json:"commit"`
	// Date is that of the commit, null where it is unknown.
	Date Time `json:"date"`
	// Go is the version of Go that built it.
	Go string `json:"go"`
}

// Node is one node's last word about itself.
type Node struct {
	ID        string `json:"id"` // of this run of it
	Name      string `json:"name"`
	Version   string `json:"version"`
	StartedAt Time   `json:"started_at"`
	SeenAt    Time   `json:"seen_at"` // when it reported last
	// RequestsPerSecond counts requests for checks over the last seconds;
	// P99MS is what 99 in 100 of them were answered faster than, 0 without any.
	RequestsPerSecond float64 `json:"requests_per_second"`
	P99MS             float64 `json:"p99_ms"`
	// Degraded says that it decides without the shared log.
	Degraded bool  `json:"degraded"`
	Revision int64 `json:"revision"` // the newest change that governs it
}

// Crawler is an address that a node has verified to be a search engine's, by its name in
// DNS. Its missing pages do not count.
type Crawler struct {
	Address    string `json:"address"`     // one IP address
	Operator   string `json:"operator"`    // as in the setting verified-crawlers
	Name       string `json:"name"`        // of the address in DNS
	VerifiedAt Time   `json:"verified_at"` // when DNS said so
}
