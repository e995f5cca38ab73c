package wire

import "github.com/go-json-experiment/json/jsontext"

// The paths of what is declared here.
const (
	PathAudit  = "/v1/audit"
	PathEvents = "/v1/events"
)

// The groups of these operations in the OpenAPI document.
var (
	TagAudit  = Tag{"audit", "The record of all changes."}
	TagEvents = Tag{"events", "Decisions and changes as they happen."}
)

// AuditEntry is one recorded change.
type AuditEntry struct {
	ID       int64  `json:"id"`
	At       Time   `json:"at"`
	Actor    Actor  `json:"actor"`
	Action   string `json:"action"`    // for example block.end
	Object   string `json:"object"`    // the kind of thing that was changed, for example block
	ObjectID string `json:"object_id"` // the id or name of the thing
	Summary  string `json:"summary"`   // the change in one sentence
	// Before and After are the thing as the API shows it, null if it did
	// not exist.
	Before   jsontext.Value `json:"before"`
	After    jsontext.Value `json:"after"`
	Revision int64          `json:"revision"`
}

// Actor is who made a change.
type Actor struct {
	Kind    string     `json:"kind" enum:"user,token,system"` // user, token or system
	ID      NullString `json:"id"`                            // null for the system
	Name    string     `json:"name"`
	Address NullString `json:"address"` // where the request came from, null for the system
}

// AuditVerification is what reading the whole chain of the audit has found.
type AuditVerification struct {
	// Intact is true where every record fits the one before and the head that
	// was asked for, if any, is not missing.
	Intact bool `json:"intact"`
	// Problem says what does not fit, and ProblemID is the first record
	// concerned, where it is one.
	Problem   NullString `json:"problem"`
	ProblemID *int64     `json:"problem_id"`
	// Records are in the chain, Uncovered ones are older than it, and Pending
	// ones, which a node of the release before wrote, enter it with the next
	// change.
	Records   int64 `json:"records"`
	Uncovered int64 `json:"uncovered"`
	Pending   int64 `json:"pending"`
	FirstAt   Time  `json:"first_at"` // of the chain, null if it is empty
	// RemovedThrough is the last record that retention has removed, null where
	// it has removed none.
	RemovedThrough *int64 `json:"removed_through"`
	// Head is the newest link, null if the chain is empty. Keep it elsewhere
	// and ask for it later: the chain alone does not show that its newest records
	// were removed, or that all of it was rewritten.
	Head NullString `json:"head"`
	// Kept says what became of the head that was asked for: in_chain, missing,
	// or expired where retention has removed it; null if none was.
	Kept NullString `json:"kept" enum:"in_chain,missing,expired"`
}

// AuditFilter selects entries of the audit.
type AuditFilter struct {
	From     Time   `query:"from" json:"-"`      // RFC 3339; entries from this instant on.
	To       Time   `query:"to" json:"-"`        // RFC 3339; entries before this instant.
	Actor    string `query:"actor" json:"-"`     // Only changes by the actor with this name.
	Action   string `query:"action" json:"-"`    // An action such as block.end, or the part before the dot.
	Object   string `query:"object" json:"-"`    // Only changes of this kind of thing.
	ObjectID string `query:"object_id" json:"-"` // Only changes of the thing with this id.
	Search   string `query:"search" json:"-"`    // Only entries whose summary or object id contains this text, case-insensitive.
}

// AuditList selects a page of entries of the audit.
type AuditList struct {
	PageList
	AuditFilter
}

// AuditExport selects entries of the audit and the format of a file of them.
type AuditExport struct {
	Format string `query:"format" json:"-" enum:"json,csv"` // json if omitted.
	AuditFilter
}

// AuditVerify asks for a verification of the audit.
type AuditVerify struct {
	Head string `query:"head" json:"-"` // A head that a verification returned before and that was kept elsewhere: is it still in the chain?
}

// The operations of the audit.
var (
	ListAudit = Op[AuditList, Page[AuditEntry]]{
		ID: "listAudit", Route: "GET " + PathAudit, Access: "read", Tag: TagAudit,
		Summary: "List changes, the newest first.", Answer: "A page of them.",
	}
	ExportAudit = Op[AuditExport, File]{
		ID: "exportAudit", Route: "GET " + PathAudit + "/export", Access: "read", Tag: TagAudit,
		Summary: "Export changes as JSON or CSV.", Answer: "The changes.",
	}
	VerifyAudit = Op[AuditVerify, AuditVerification]{
		ID: "verifyAudit", Route: "GET " + PathAudit + "/verify", Access: "read", Tag: TagAudit, Conflict: true,
		Summary: "Verify that no record of the audit was changed, added or removed.", Answer: "What the verification found.",
	}
	GetAuditEntry = Op[ByID, AuditEntry]{
		ID: "getAuditEntry", Route: "GET " + PathAudit + "/:id", Access: "read", Tag: TagAudit,
		Summary: "Show a change.", Answer: "The change.",
	}
	UndoEntry = Op[UndoRequest, AuditEntry]{
		ID: "undoEntry", Route: "POST " + PathAudit + "/:id/undo", Access: "operate", Tag: TagAudit, Created: true, OptionalBody: true,
		Summary: "Undo a change by a new change.", Answer: "The new change.",
	}
)
