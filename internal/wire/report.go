package wire

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
