package wire

// The paths of what is declared here.
const (
	PathVersion  = "/v1/version"
	PathNodes    = "/v1/nodes"
	PathCrawlers = "/v1/crawlers"
)

// Build is the build of one node.
type Build struct {
	// Version is SemVer with v, "dev" where no tag is known.
	Version string `json:"version"`
	// Commit is the start of the source's, "unknown" where none was recorded.
	Commit string `json:"commit"`
	// Date is that of the commit, null if it is unknown.
	Date Time `json:"date"`
	// Go is the version of Go that built it.
	Go string `json:"go"`
}

// Node is what one node last reported about itself.
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
	// Memory is null of a node of a release that does not report it.
	Memory *NodeMemory `json:"memory"`
}

// NodeMemory is what the logs of keys in a node's memory take, and what the node forgot
// since it started to stay within its bound.
type NodeMemory struct {
	Bytes int64 `json:"bytes"` // that the logs take
	// MaxBytes is what they may take, the setting max-memory.
	MaxBytes int64 `json:"max_bytes"`
	// Forgetting says that keys were forgotten in the minute before its last report.
	Forgetting bool `json:"forgetting"`
	// ForgottenKeys were idle longest, and none of them was refused or blocked.
	ForgottenKeys int64 `json:"forgotten_keys"`
	// LastForgottenAt is null if no key was forgotten.
	LastForgottenAt Time `json:"last_forgotten_at"`
	// UncountedRequests were allowed and not counted, since every key that was kept was
	// refused or blocked.
	UncountedRequests int64 `json:"uncounted_requests"`
}

// Crawler is an address that a node has verified to be a search engine's, by its name in
// DNS. Its missing pages do not count.
type Crawler struct {
	Address    string `json:"address"`     // one IP address
	Operator   string `json:"operator"`    // as in the setting verified-crawlers
	Name       string `json:"name"`        // of the address in DNS
	VerifiedAt Time   `json:"verified_at"` // when DNS said so
}

// The operations that show the installation.
var (
	GetVersion = Op[None, Build]{
		ID: "version", Route: "GET " + PathVersion, Access: "read", Tag: TagHealth,
		Summary: "Show the version and build of this node.", Answer: "The build.",
	}
	ListNodes = Op[None, Page[Node]]{
		ID: "listNodes", Route: "GET " + PathNodes, Access: "read", Tag: TagHealth,
		Summary: "List the nodes seen lately, with their load.", Answer: "The nodes by name.",
	}
	ListCrawlers = Op[None, Page[Crawler]]{
		ID: "listCrawlers", Route: "GET " + PathCrawlers, Access: "read", Tag: TagHealth,
		Summary: "List the crawlers that this node has verified by DNS; none unless the setting verified-crawlers names operators.",
		Answer:  "The crawlers by operator and address.",
	}
)
