package wire

// Site is what the answers of a site have shown of it, by the reports that say their status.
type Site struct {
	Host string `json:"host"` // "" for requests whose host was not reported, is none of ours, or is one too many
	// MissingStatuses are the statuses with which the site answers what it does not have, besides 404 and 410.
	// Requests for programs that it does not run that are answered so are the outcome probe.
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
	// /phpmyadmin/*; they replace those before. "*" means that nothing there is a probe. Up to 32.
	OwnPaths []string `json:"own_paths"`
	Forget   bool     `json:"forget,omitzero"` // Also forget what was learned of the site.
}

// PathSites is the path of the sites.
const PathSites = "/v1/sites"

// The operations of sites.
var (
	ListSites = Op[None, Page[Site]]{
		ID: "listSites", Route: "GET " + PathSites, Access: "read", Tag: "health",
		Summary: "List the sites whose answers are reported, with what they have shown of themselves.", Answer: "The sites by host.",
		Doc: "Reports with a status teach it. The nodes of one database share it within a minute.",
	}
	CorrectSite = Op[SiteRequest, None]{
		ID: "correctSite", Route: "PUT " + PathSites, Access: "operate", Tag: "health",
		Summary: "Name paths that are a site's own, or forget what was learned of it.", Answer: "It is corrected on this node, and on the others within a minute.",
	}
)
