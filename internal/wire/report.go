package wire

// PathReports is the path of what is declared here.
const PathReports = "/v1/reports"

// TagReports is the group of these operations in the OpenAPI document.
var TagReports = Tag{"reports", "Daily and weekly reports."}

// Report names one report; the report itself is at /v1/reports/{id}.
type Report struct {
	ID        string `json:"id"`
	Kind      string `json:"kind" enum:"daily,weekly"` // daily or weekly
	From      Time   `json:"from"`
	To        Time   `json:"to"`
	CreatedAt Time   `json:"created_at"`
	Allowed   int64  `json:"allowed"`
	Refused   int64  `json:"refused"`
	Offenders int64  `json:"offenders"` // keys that offended
	// Attention says, one sentence each, what a person should look at.
	Attention []string `json:"attention"`
}

// ReportRequest asks for the report of the last whole day or week.
type ReportRequest struct {
	Kind string `json:"kind" enum:"daily,weekly"` // daily or weekly
}

// ReportList selects reports.
type ReportList struct {
	Kind string `query:"kind" json:"-" enum:"daily,weekly"` // Only reports of this kind.
	PageList
}

// ReportByID selects a report and its format.
type ReportByID struct {
	ID     string `path:"id" json:"-"`
	Format string `query:"format" json:"-" enum:"json,csv,html"` // json if omitted.
}

// The operations of reports.
var (
	ListReports = Op[ReportList, Page[Report]]{
		ID: "listReports", Route: "GET " + PathReports, Access: "read", Tag: TagReports,
		Summary: "List the daily and weekly reports.", Answer: "The reports, the newest period first.",
	}
	WriteReport = Op[ReportRequest, Report]{
		ID: "writeReport", Route: "POST " + PathReports, Access: "operate", Tag: TagReports, Created: true,
		Summary: "Create the report of the last whole day or week now.", Answer: "The report that was created.",
	}
	GetReport = Op[ReportByID, File]{
		ID: "getReport", Route: "GET " + PathReports + "/:id", Access: "read", Tag: TagReports,
		Summary: "Show a report as JSON, CSV or a page that can be mailed or printed; the id today is the report of today so far.", Answer: "The report.",
	}
)
