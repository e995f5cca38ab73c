package wire

// Site is what was learned of a site from reports that say the status of its answers.
type Site struct {
	Host string `json:"host"` // "" for requests whose host was not reported, is none of ours, or is one too many
	// MissingStatuses are the statuses, besides 404 and 410, with which the site answers requests for what it does
	// not have. A request for a program that it does not run, answered so, has the outcome probe.
	MissingStatuses []int    `json:"missing_statuses"`
	OwnPrograms     []string `json:"own_programs"` // of those that scanners look for, the ones that the site was seen to run
	OwnPaths        []string `json:"own_paths"`    // patterns that an operator has named the site's own
	Answers         int64    `json:"answers"`      // how many were reported to this node since its start
}

// SiteRequest corrects what is known of a site.
type SiteRequest struct {
	// Host is that of the site, "" for requests whose host is not known.
	Host string `json:"host"`
	// OwnPaths are patterns of paths that are the site's own although scanners look for them, such as
	// /phpmyadmin/*: requests for them are no probes. They replace those before, which stay if this is omitted; an
	// empty list removes them. At most 32, and none that selects every path.
	OwnPaths []string `json:"own_paths,omitzero"`
	Forget   bool     `json:"forget,omitzero"` // also forget what was learned of the site
}

// PathSites is the path of the sites.
const PathSites = "/v1/sites"

// The operations of sites.
var (
	ListSites = Op[None, Page[Site]]{
		ID: "listSites", Route: "GET " + PathSites, Access: "read", Tag: TagHealth,
		Summary: "List the sites whose answers are reported, with what was learned of them.", Answer: "The sites by host.",
		Doc: "It is learned from reports with a status. The nodes of one database share it within a minute.",
	}
	CorrectSite = Op[SiteRequest, None]{
		ID: "correctSite", Route: "PUT " + PathSites, Access: "operate", Tag: TagHealth,
		Summary: "Name paths that are a site's own, or forget what was learned of it.", Answer: "It is corrected on this node, and on the others within a minute.",
	}
)
