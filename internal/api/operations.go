package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/wire"
)

// Operation describes a route in openapi.json.
type Operation struct {
	ID      string // unique, for generated clients
	Tag     string
	Summary string
	// Query are the query parameters, IfMatch whether that header is read.
	Query   []Param
	IfMatch bool
	// Body is a value of the type that the body holds, nil for none.
	Body         any
	BodyOptional bool
	// BodyTypes are media types of the body other than JSON.
	BodyTypes []string
	Answers   []Answer
}

// Param is a query parameter.
type Param struct {
	Name     string
	Doc      string
	Required bool
	Enum     []string
	Integer  bool
}

// Answer is one answer beside problems, which every operation may give.
type Answer struct {
	Status int
	Doc    string
	// Body is a value of the type that the answer holds as JSON; nil where it
	// holds nothing or Types.
	Body any
	// Types are media types other than JSON.
	Types []string
}

func ok(doc string, body any) []Answer {
	return []Answer{{Status: http.StatusOK, Doc: doc, Body: body}}
}

var (
	limitParam  = Param{Name: "limit", Doc: "How many items a page holds, 1 to 1000; 100 where it is left out.", Integer: true}
	cursorParam = Param{Name: "cursor", Doc: "The next_cursor of the page before."}

	endedParams = []Param{
		{Name: "state", Doc: "Which to list; active where it is left out.", Enum: []string{"active", "ended", "all"}},
		{Name: "author", Doc: "Only what this author made."},
		{Name: "search", Doc: "Only patterns or reasons that hold this text, without case."},
		{Name: "key", Doc: "Only what selects this key."},
		{Name: "within", Doc: "Only patterns that this pattern covers."},
		{Name: "order", Doc: "The newest first, or what ends soonest first.", Enum: []string{"created", "expiry"}},
		cursorParam, limitParam,
	}
	auditQuery = []Param{
		{Name: "from", Doc: "RFC 3339; entries from this instant on."},
		{Name: "to", Doc: "RFC 3339; entries before this instant."},
		{Name: "actor", Doc: "Only changes by whoever has this name."},
		{Name: "action", Doc: "An action such as block.end, or the part before the dot."},
		{Name: "object", Doc: "Only changes of this kind of thing."},
		{Name: "object_id", Doc: "Only changes of the thing with this id."},
		{Name: "search", Doc: "Only entries whose summary or object id holds this text, without case."},
	}
	keyParams = []Param{
		{Name: "key", Doc: "The key, for example ip:203.0.113.7.", Required: true},
		{Name: "policy", Doc: "The policy to ask by name instead of the key's own."},
	}
	reasonParam = []Param{{Name: "reason", Doc: "Why, where the body does not say it."}}
)

var opCheck = &Operation{
	ID: "check", Tag: "checks", Summary: "May this key, or may all of these keys, do one more request?",
	Body: anyOf{wire.CheckRequest{}, wire.KeysRequest{}},
	Answers: []Answer{
		{Status: http.StatusOK, Doc: "Allowed.", Body: decided},
		{Status: http.StatusTooManyRequests, Doc: "Limited by a rule.", Body: decided},
		{Status: http.StatusForbidden, Doc: "Blocked by a block.", Body: decided},
		{Status: http.StatusServiceUnavailable, Doc: "An outage under on_failure deny.", Body: decided},
	},
}

// decided is what a check is answered: about one key, or about several.
var decided = anyOf{wire.Decision{}, wire.KeysDecision{}}

var (
	opBatch = &Operation{
		ID: "checkBatch", Tag: "checks", Summary: "Ask up to 1,000 checks, each on its own.",
		Body: wire.BatchRequest{}, Answers: ok("The answers in order, a problem in the place of each bad check.", wire.BatchAnswer{}),
	}
	opGiveBack = &Operation{
		ID: "cancelReservation", Tag: "checks", Summary: "Give back a reservation that was reserved, before its time.",
		Answers: ok("Whether that freed room for others.", wire.Cancelled{}),
	}
	opLive = &Operation{
		ID: "live", Tag: "health", Summary: "Is the process alive?",
		Answers: []Answer{{Status: http.StatusOK, Doc: "It is.", Types: []string{"text/plain"}}},
	}
	opReady = &Operation{
		ID: "ready", Tag: "health", Summary: "Can this node answer, and which part cannot?",
		Answers: append(ok("It can.", wire.Readiness{}), Answer{Status: http.StatusServiceUnavailable, Doc: "It cannot.", Body: wire.Readiness{}}),
	}
	opWhoami = &Operation{
		ID: "whoami", Tag: "identities", Summary: "Whose credential is this and what may it do?", Answers: ok("Its holder.", wire.Whoami{}),
	}
)

var (
	opListAlgorithms = &Operation{ID: "listAlgorithms", Tag: "policies", Summary: "List the ways to count that a policy may name.", Answers: ok("All of them, the default first.", wire.Page[wire.Algorithm]{})}
	opListPolicies   = &Operation{ID: "listPolicies", Tag: "policies", Summary: "List the policies.", Answers: ok("All of them.", wire.Page[wire.Policy]{})}
	opGetPolicy      = &Operation{ID: "getPolicy", Tag: "policies", Summary: "Show a policy; its ETag is the version.", Answers: ok("The policy.", wire.Policy{})}
	opPolicyVersions = &Operation{ID: "listPolicyVersions", Tag: "policies", Summary: "List the versions of a policy, the newest first.", Answers: ok("All of them.", wire.Page[wire.Policy]{})}
	opPutPolicy      = &Operation{
		ID: "putPolicy", Tag: "policies", Summary: "Create a policy, or replace the version that If-Match names.",
		IfMatch: true, Body: wire.PolicyRequest{},
		Query:   []Param{{Name: "confirm", Doc: "The policy's name, which one needs that newly refuses every request of a broad pattern."}},
		Answers: append(ok("Replaced.", wire.Policy{}), Answer{Status: http.StatusCreated, Doc: "Created.", Body: wire.Policy{}}),
	}
	opDeletePolicy = &Operation{
		ID: "deletePolicy", Tag: "policies", Summary: "Delete the version of a policy that If-Match names.",
		IfMatch: true, Answers: []Answer{{Status: http.StatusNoContent, Doc: "Deleted."}},
	}
)

var (
	opListBlocks = &Operation{
		ID: "listBlocks", Tag: "blocks", Summary: "List blocks.", Answers: ok("A page of them.", wire.Page[wire.Entry]{}),
		Query: endedParams,
	}
	opAddBlock = &Operation{
		ID: "addBlock", Tag: "blocks", Summary: "Block a pattern.", Body: wire.AddEntry{},
		Answers: append(ok("Extended or unchanged.", wire.AddedEntry{}), Answer{Status: http.StatusCreated, Doc: "Created or replaced.", Body: wire.AddedEntry{}}),
	}
	opGetBlock    = &Operation{ID: "getBlock", Tag: "blocks", Summary: "Show a block.", Answers: ok("The block.", wire.Entry{})}
	opChangeBlock = &Operation{ID: "changeBlock", Tag: "blocks", Summary: "Change a block's reason or end.", Body: wire.EntryPatch{}, Answers: ok("The block.", wire.Entry{})}
	opEndBlock    = &Operation{ID: "endBlock", Tag: "blocks", Summary: "End a block.", Query: reasonParam, Body: wire.EndRequest{}, BodyOptional: true, Answers: ok("The block.", wire.Entry{})}

	opRestoreBlock = &Operation{
		ID: "restoreBlock", Tag: "blocks", Summary: "Make an ended block active again, until its former expiry.",
		Body: wire.RestoreRequest{}, BodyOptional: true, Answers: ok("The block.", wire.Entry{}),
	}
	opRestoreExemption = &Operation{
		ID: "restoreExemption", Tag: "exemptions", Summary: "Make an ended exemption active again, until its former expiry.",
		Body: wire.RestoreRequest{}, BodyOptional: true, Answers: ok("The exemption.", wire.Entry{}),
	}
	opListExemptions = &Operation{
		ID: "listExemptions", Tag: "exemptions", Summary: "List exemptions.", Query: endedParams, Answers: ok("A page of them.", wire.Page[wire.Entry]{}),
	}
	opAddExemption = &Operation{
		ID: "addExemption", Tag: "exemptions", Summary: "Exempt a pattern from every rule and block.", Body: wire.AddEntry{},
		Answers: append(ok("Extended or unchanged.", wire.AddedEntry{}), Answer{Status: http.StatusCreated, Doc: "Created or replaced.", Body: wire.AddedEntry{}}),
	}
	opGetExemption    = &Operation{ID: "getExemption", Tag: "exemptions", Summary: "Show an exemption.", Answers: ok("The exemption.", wire.Entry{})}
	opChangeExemption = &Operation{ID: "changeExemption", Tag: "exemptions", Summary: "Change an exemption's reason or end.", Body: wire.EntryPatch{}, Answers: ok("The exemption.", wire.Entry{})}
	opEndExemption    = &Operation{ID: "endExemption", Tag: "exemptions", Summary: "End an exemption.", Query: reasonParam, Body: wire.EndRequest{}, BodyOptional: true, Answers: ok("The exemption.", wire.Entry{})}
)

var (
	opExplainKey = &Operation{ID: "explainKey", Tag: "keys", Summary: "What applies to a key now, and why?", Query: keyParams, Answers: ok("The explanation.", wire.KeyExplanation{})}
	opResetKey   = &Operation{ID: "resetKey", Tag: "keys", Summary: "Forget what a key has used, under one policy or all.", Query: keyParams, Answers: ok("What was forgotten.", wire.KeyReset{})}
)

var (
	opListTokens  = &Operation{ID: "listTokens", Tag: "identities", Summary: "List the tokens, ended ones included.", Answers: ok("All of them.", wire.Page[wire.Token]{})}
	opAddToken    = &Operation{ID: "addToken", Tag: "identities", Summary: "Make a token; its secret is shown this once.", Body: wire.TokenRequest{}, Answers: []Answer{{Status: http.StatusCreated, Doc: "Created.", Body: wire.CreatedToken{}}}}
	opGetToken    = &Operation{ID: "getToken", Tag: "identities", Summary: "Show a token.", Answers: ok("The token.", wire.Token{})}
	opChangeToken = &Operation{ID: "changeToken", Tag: "identities", Summary: "Change a token's name or end.", Body: wire.TokenPatch{}, Answers: ok("The token.", wire.Token{})}
	opRotateToken = &Operation{
		ID: "rotateToken", Tag: "identities", Summary: "Replace a token by a new one; the old one goes on for the overlap.",
		Body: wire.RotateRequest{}, BodyOptional: true, Answers: []Answer{{Status: http.StatusCreated, Doc: "Created.", Body: wire.CreatedToken{}}},
	}
	opRevokeToken = &Operation{ID: "revokeToken", Tag: "identities", Summary: "Revoke a token on every node.", Answers: ok("The token.", wire.Token{})}

	opListUsers   = &Operation{ID: "listUsers", Tag: "identities", Summary: "List the users.", Answers: ok("All of them.", wire.Page[wire.User]{})}
	opAddUser     = &Operation{ID: "addUser", Tag: "identities", Summary: "Make a user.", Body: wire.UserRequest{}, Answers: []Answer{{Status: http.StatusCreated, Doc: "Created.", Body: wire.User{}}}}
	opGetUser     = &Operation{ID: "getUser", Tag: "identities", Summary: "Show a user.", Answers: ok("The user.", wire.User{})}
	opChangeUser  = &Operation{ID: "changeUser", Tag: "identities", Summary: "Change a user's role, or disable or enable the user.", Body: wire.UserPatch{}, Answers: ok("The user.", wire.User{})}
	opSetPassword = &Operation{ID: "setPassword", Tag: "identities", Summary: "Set a user's password and end the user's sessions.", Body: wire.PasswordRequest{}, Answers: ok("The user.", wire.User{})}
	opDeleteUser  = &Operation{ID: "deleteUser", Tag: "identities", Summary: "Delete a user.", Answers: []Answer{{Status: http.StatusNoContent, Doc: "Deleted."}}}
)

var (
	opListAudit   = &Operation{ID: "listAudit", Tag: "audit", Summary: "List changes, the newest first.", Query: append([]Param{cursorParam, limitParam}, auditQuery...), Answers: ok("A page of them.", wire.Page[wire.AuditEntry]{})}
	opGetAudit    = &Operation{ID: "getAuditEntry", Tag: "audit", Summary: "Show a change.", Answers: ok("The change.", wire.AuditEntry{})}
	opVerifyAudit = &Operation{
		ID: "verifyAudit", Tag: "audit", Summary: "Verify that no record of the audit was changed, added or removed.",
		Query:   []Param{{Name: "head", Doc: "A head that a verification returned before and that was kept elsewhere: is it still in the chain?"}},
		Answers: ok("What the verification found.", wire.AuditVerification{}),
	}
	opExportAudit = &Operation{
		ID: "exportAudit", Tag: "audit", Summary: "Export changes as JSON or CSV.",
		Query:   append([]Param{{Name: "format", Doc: "json where it is left out.", Enum: []string{"json", "csv"}}}, auditQuery...),
		Answers: []Answer{{Status: http.StatusOK, Doc: "All of them.", Body: []wire.AuditEntry{}, Types: []string{"text/csv"}}},
	}
	opBackup = &Operation{
		ID: "backup", Tag: "backup", Summary: "Read a backup of the embedded data.",
		Answers: []Answer{{Status: http.StatusOK, Doc: "The backup.", Types: []string{backupType}}},
	}
	opRestore = &Operation{
		ID: "restore", Tag: "backup", Summary: "Replace the embedded data by a backup.",
		Body: binary{}, Answers: ok("What the backup held.", wire.RestoreAnswer{}),
	}
)

// binary is the body of an operation that is no JSON.
type binary struct{}
