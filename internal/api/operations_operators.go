package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// operations returns the routes of what operators do beyond changing one
// thing. They stand before the table's: "export" would be an id there.
func (s *API) operations() []route {
	const (
		get, post = http.MethodGet, http.MethodPost
		policy    = wire.PathPolicies + "/:name"
	)
	return []route{
		onAdmin(get, "/docs", identity.Public, s.handleDocs, nil),

		onAdmin(post, wire.PathBlockPreview, identity.Read, s.previewBlock, opPreviewBlock),
		streamed(post, wire.PathBlockImport, identity.Operate, s.importBlocks, opImportBlocks),
		onAdmin(get, wire.PathBlockExport, identity.Read, s.exportBlocks, opExportBlocks),

		onAdmin(post, wire.PathAudit+"/:id/undo", identity.Operate, s.undoEntry, opUndo),

		onAdmin(get, policy+"/diff", identity.Read, s.diffPolicy, opDiffPolicy),
		onAdmin(get, wire.PathPolicyFile, identity.Read, s.exportPolicies, opExportPolicies),
		onAdmin(post, wire.PathPolicyFile, identity.Admin, s.applyPolicies, opApplyPolicies),

		onAdmin(get, wire.PathEvents, identity.Read, s.tellEvents, opEvents),

		onAdmin(get, wire.PathJobs, identity.Read, s.listJobs, opListJobs),
		onAdmin(get, wire.PathJobs+"/runs", identity.Read, s.listRuns, opListRuns),
		onAdmin(post, wire.PathJobs+"/:name/run", identity.Operate, s.runJob, opRunJob),
		onAdmin(get, wire.PathNotifications, identity.Read, s.listNotifications, opListNotifications),
		onAdmin(post, wire.PathNotifications+"/test", identity.Admin, s.testNotification, opTestNotification),
	}
}

// files is the body of an operation that takes files of several media types.
type files struct{}

var truth = []string{"true", "false"}

var (
	opPreviewBlock = &Operation{
		ID: "previewBlock", Tag: "blocks", Summary: "Whom would a block of this pattern hit, and does it need a confirmation?",
		Body: wire.PreviewRequest{}, Answers: ok("Its blast radius.", wire.Impact{}),
	}
	opImportBlocks = &Operation{
		ID: "importBlocks", Tag: "blocks", Summary: "Import up to 1,000,000 blocks from CSV, JSON or a plain list, all or nothing.",
		Body: files{}, BodyTypes: []string{"text/csv", "application/json", "application/x-ndjson", "text/plain"},
		Query: []Param{
			{Name: "on_conflict", Doc: "What to do with a pattern that is blocked already; fail, the default, leaves it as it is.", Enum: []string{wire.ConflictFail, wire.ConflictExtend, wire.ConflictReplace}},
			{Name: "skip_bad", Doc: "Leave bad rows out instead of importing nothing.", Enum: truth},
			{Name: "dry_run", Doc: "Change nothing and say what would be done.", Enum: truth},
			{Name: "reason", Doc: "For the rows that name none."},
			{Name: "expires_in", Doc: "For the rows that name no end, for example 7d."},
			{Name: "expires_at", Doc: "The same as an RFC 3339 time."},
			{Name: "confirm", Doc: "What a dry run of the same file, or the answer 409 confirmation_required, gave as confirm: its broad rows are meant."},
		},
		Answers: ok("What was done.", wire.ImportAnswer{}),
	}
	opExportBlocks = &Operation{
		ID: "exportBlocks", Tag: "blocks", Summary: "Export blocks as an import reads them.",
		Query: append([]Param{{Name: "format", Doc: "csv where it is left out.", Enum: []string{"csv", "json", "plain"}},
			{Name: "source", Doc: "Only blocks of this source.", Enum: []string{"manual", "automatic", "imported"}}}, selectionParams...),
		Answers: []Answer{{Status: http.StatusOK, Doc: "The file.", Types: []string{"text/csv", "application/json", "text/plain"}}},
	}
	// selectionParams are endedParams without what pages and orders.
	selectionParams = endedParams[:5]
)

var (
	opUndo = &Operation{
		ID: "undoEntry", Tag: "audit", Summary: "Bring back what stood before a change, as a new change.",
		Body: wire.UndoRequest{}, BodyOptional: true,
		Answers: []Answer{{Status: http.StatusCreated, Doc: "The new change.", Body: wire.AuditEntry{}}},
	}
	opDiffPolicy = &Operation{
		ID: "diffPolicy", Tag: "policies", Summary: "Compare two versions of a policy.",
		Query: []Param{
			{Name: "from", Doc: "The earlier version, 0 for none; the one before to where it is left out.", Integer: true},
			{Name: "to", Doc: "The later version; the newest where it is left out.", Integer: true},
		},
		Answers: ok("What differs.", wire.PolicyDiff{}),
	}
	opExportPolicies = &Operation{
		ID: "exportPolicies", Tag: "policies", Summary: "Export all policies as one document.",
		Query:   []Param{{Name: "format", Doc: "json where it is left out.", Enum: []string{"json", "yaml"}}},
		Answers: []Answer{{Status: http.StatusOK, Doc: "The document.", Body: wire.PolicyFile{}, Types: []string{"application/yaml"}}},
	}
	opApplyPolicies = &Operation{
		ID: "applyPolicies", Tag: "policies", Summary: "Make the policies what a document says, all or nothing.",
		Query: []Param{
			{Name: "dry_run", Doc: "Change nothing and show the difference.", Enum: truth},
			{Name: "confirm", Doc: "The names, with commas between them, of the policies that newly refuse every request of a broad pattern, as the answer 409 confirmation_required gives them."},
			{Name: "prune", Doc: "Delete the policies that the document does not name.", Enum: truth},
		},
		Body: wire.PolicyFileRequest{}, Answers: ok("What was changed.", wire.PolicyPlan{}),
	}
	opEvents = &Operation{
		ID: "tellEvents", Tag: "events", Summary: "Hear what happens as server-sent events; send Last-Event-ID to go on after a break.",
		Query: []Param{
			{Name: "kind", Doc: "Only these kinds: decision, block and change, with commas between."},
			{Name: "decision", Doc: "Only these decisions: allowed, limited, blocked and unavailable, with commas between."},
			{Name: "policy", Doc: "Only decisions by this policy, and its changes."},
			{Name: "pattern", Doc: "Only decisions on keys that it selects, and changes of blocks and exemptions that share a key with it."},
		},
		Answers: []Answer{{Status: http.StatusOK, Doc: "Events whose data is an Event.", Types: []string{eventType}}},
	}
)

var (
	opListJobs = &Operation{ID: "listJobs", Tag: "jobs", Summary: "List the periodic work with its newest runs.", Answers: ok("All of it.", wire.Page[wire.Job]{})}
	opListRuns = &Operation{
		ID: "listRuns", Tag: "jobs", Summary: "List the newest runs.",
		Query: []Param{{Name: "job", Doc: "Only runs of this job."}, limitParam}, Answers: ok("The runs.", wire.Page[wire.JobRun]{}),
	}
	opRunJob            = &Operation{ID: "runJob", Tag: "jobs", Summary: "Run a job now; the answer comes when it has ended.", Answers: ok("The run.", wire.JobRun{})}
	opListNotifications = &Operation{
		ID: "listNotifications", Tag: "notifications", Summary: "List what people were told, or are about to be.",
		Query: []Param{limitParam}, Answers: ok("The newest.", wire.Notifications{}),
	}
	opTestNotification = &Operation{
		ID: "testNotification", Tag: "notifications", Summary: "Send a test message over one channel.",
		Body: wire.TestRequest{}, Answers: ok("What came of it.", wire.TestAnswer{}),
	}
)
