package wire

import "strconv"

// TrafficFilter selects requests by their dimensions: path, agent, host, method, policy, rule,
// outcome, country, asn, bot and verified.
type TrafficFilter struct {
	// Only requests with these values: dimension=value, several of them separated by commas, for
	// example path=/login,method=POST. A final * matches any text, and a dimension without a
	// value means requests of which it is not known. Of several values of one dimension, one is
	// enough. In a value, \*, \, and \\ are a star, a comma and a backslash, and \s is
	// a space at the end.
	Is string `query:"is" json:"-"`
	// No requests with these values, written like those of is.
	Not string `query:"not" json:"-"`
	// Rank by the requests that were decided so; by all requests if omitted.
	Decision string `query:"decision" json:"-" enum:"allowed,refused,limited,blocked,challenged,unavailable,reported"`
	TimeRange
}

// TrafficBy selects what was requested, divided by one dimension.
type TrafficBy struct {
	Dimension string `path:"dimension" json:"-"`           // path, agent, host, method, policy, rule, outcome, country, asn, bot or verified
	Limit     int    `query:"limit" json:"-" range:"1000"` // How many values, 1 to 1000; 50 if omitted.
	TrafficFilter
}

// TrafficByExport selects what was requested, and the format of a file of it.
type TrafficByExport struct {
	Dimension string `path:"dimension" json:"-"`               // path, agent, host, method, policy, rule, outcome, country, asn, bot or verified
	Format    string `query:"format" json:"-" enum:"json,csv"` // json if omitted.
	TrafficFilter
}

// RequestCounts are numbers of requests by what was decided.
type RequestCounts struct {
	Requests    int64 `json:"requests"` // the checks or, if there are more, the reports
	Allowed     int64 `json:"allowed"`
	Limited     int64 `json:"limited"`
	Blocked     int64 `json:"blocked"`
	Challenged  int64 `json:"challenged"`  // refused until a challenge is solved
	Unavailable int64 `json:"unavailable"` // refused under an outage
	Reported    int64 `json:"reported"`    // whose outcome was reported; they may also be among the others
}

// RequestGroup is the requests with one value of a dimension.
type RequestGroup struct {
	// Value is the value, null if it is not known. In paths, {id} replaces ids and numbers.
	Value NullString `json:"value"`
	RequestCounts
}

// RequestClient is a key and its requests.
type RequestClient struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"` // at least
}

// RequestBreakdown is what was requested in a time range, divided by one dimension. All counts are
// at least; how many more there may be is said beside them.
type RequestBreakdown struct {
	// From and To are the time range that was read: whole minutes, or hours or days
	// where minutes are no longer kept.
	From      Time           `json:"from"`
	To        Time           `json:"to"`
	Dimension string         `json:"dimension"` // what divides the requests
	Total     RequestCounts  `json:"total"`     // of the requests that the filters certainly select
	Items     []RequestGroup `json:"items"`     // those with most requests first
	// Unnamed are selected requests whose value was not kept: the rarest of very many, or, with
	// filters on other dimensions, those whose values were not kept together.
	Unnamed RequestCounts `json:"unnamed"`
	// Overcount is how many requests beyond its own one value may have at most.
	Overcount int64 `json:"overcount"`
	// Unsure is how many requests beyond the total the filters may select at most.
	Unsure int64 `json:"unsure"`
	// Unread is how many parts of the time range could not be read. Their requests are missing.
	Unread int `json:"unread"`
	// Clients are the keys with most allowed requests, Offenders those with most refused ones. Each
	// may have made ClientsOvercount or OffendersOvercount more.
	Clients            []RequestClient `json:"clients"`
	Offenders          []RequestClient `json:"offenders"`
	ClientsOvercount   int64           `json:"clients_overcount"`
	OffendersOvercount int64           `json:"offenders_overcount"`
}

// The operations of what was requested.
var (
	GetTrafficBy = Op[TrafficBy, RequestBreakdown]{
		ID: "getTrafficBy", Route: "GET " + PathTraffic + "/by/:dimension", Access: "read", Tag: TagOffenders,
		Summary: "Show what was requested, by path, agent or another dimension, and by whom.", Answer: "The values with most requests, and the clients.",
	}
	ExportTrafficBy = Op[TrafficByExport, File]{
		ID: "exportTrafficBy", Route: "GET " + PathTraffic + "/by/:dimension/export", Access: "read", Tag: TagOffenders,
		Summary: "Export what was requested as a file.", Answer: "Every value that is kept.",
	}
)

// RequestGroupColumn is a column of what was requested as CSV.
type RequestGroupColumn struct {
	Name string
	Cell func(*RequestGroup) string
}

// RequestGroupColumns are the columns of what was requested as CSV.
var RequestGroupColumns = []RequestGroupColumn{
	{"value", func(g *RequestGroup) string { return string(g.Value) }},
	{"requests", func(g *RequestGroup) string { return strconv.FormatInt(g.Requests, 10) }},
	{"allowed", func(g *RequestGroup) string { return strconv.FormatInt(g.Allowed, 10) }},
	{"limited", func(g *RequestGroup) string { return strconv.FormatInt(g.Limited, 10) }},
	{"blocked", func(g *RequestGroup) string { return strconv.FormatInt(g.Blocked, 10) }},
	{"challenged", func(g *RequestGroup) string { return strconv.FormatInt(g.Challenged, 10) }},
	{"unavailable", func(g *RequestGroup) string { return strconv.FormatInt(g.Unavailable, 10) }},
	{"reported", func(g *RequestGroup) string { return strconv.FormatInt(g.Reported, 10) }},
}
