package wire

// The paths of what is declared here.
const (
	PathAlgorithms = "/v1/algorithms"
	PathPolicies   = "/v1/policies"
	PathPresets    = "/v1/presets"
	PathPolicySet  = "/v1/policy-set"
)

// TagPolicies is the group of these operations in the OpenAPI document.
var TagPolicies = Tag{"policies", "The policies, whose rules limit keys."}

// PolicyRequest is a policy as a document: what PUT /v1/policies/{name} takes, and what policy files, the
// database and the state that a node saves contain. Creating needs no If-Match; replacing needs the ETag of
// what it replaces, or *.
type PolicyRequest struct {
	Name  string   `json:"name,omitzero" yaml:"name" always:"answer"` // the name; a request may omit it, or say it as in the path
	Match []string `json:"match" yaml:"match,flow"`                   // the patterns of the keys that the policy applies to
	// When limits the policy to requests that meet its conditions; it then applies in
	// addition to the key's other policies.
	When PolicyWhen `json:"when,omitzero" yaml:"when,omitempty"`
	// Outcome makes reports of it charge the policy, and not checks: while there is no
	// room for one more report, every check of the key is refused. It then applies in
	// addition to the key's other policies, and its conditions are those of reports.
	Outcome string `json:"outcome,omitzero" yaml:"outcome,omitempty"`
	// Scope limits what a policy with an outcome refuses to checks whose request has that
	// scope. The blocks of its escalation have it too.
	Scope string   `json:"scope,omitzero" yaml:"scope,omitempty"`
	Rules []string `json:"rules" yaml:"rules,flow"`
	// Evidence is for what requests get points, which the rules then limit, as in "20 points/1h": "20 path
	// @secrets /backup*", "2 outcome not_found distinct path", "-6 outcome login_ok forgives login_failed".
	// Each item begins with its points; path, method, agent and host with their patterns say which requests
	// it is about, outcome that it is charged by reports, distinct that each different value is charged once,
	// and forgives of which outcome points below zero take points back. At most 64.
	Evidence []string `json:"evidence,omitzero" yaml:"evidence,omitempty"`
	// Also are further keys that each request counts for, which is allowed only if the
	// limits of all allow it: "net:/24" and "net:/48", the networks of the address, or the
	// name of a value or an attribute of the request, such as "account", "asn" or "header:accept-language", whose
	// value is hashed, or several with + between, "ip+path"; behind it the rules of that key, if
	// they differ, for example "account 10/h 50/d". At most 4.
	Also []string `json:"also,omitzero" yaml:"also,omitempty"`
	Mode string   `json:"mode,omitzero" yaml:"mode,omitempty" always:"answer" enum:"enforce,shadow,off"` // whether it decides, only counts what it would refuse, or is off; enforce if omitted
	// OnFailure is what decides while the shared log is unreachable; local if omitted.
	OnFailure string `json:"on_failure,omitzero" yaml:"on_failure,omitempty" always:"answer" enum:"local,allow,deny"`
	// OnLimit is what happens to a key that reaches a limit: limit, which answers omit, refuses its requests until
	// there is room again; block also blocks it at once, for as long as the escalation says, whose threshold is
	// then 1, or for an hour, each time twice as long, at most a day, if there is no escalation; challenge
	// refuses them until there is room or the client's browser has solved a challenge.
	OnLimit string `json:"on_limit,omitzero" yaml:"on_limit,omitempty" enum:"limit,block,challenge"`
	// Algorithm is how requests are counted, see listAlgorithms; timestamp_log if omitted, and point_log
	// with evidence, which has no other.
	Algorithm string `json:"algorithm,omitzero" yaml:"algorithm,omitempty" always:"answer"`
	// Unit is what the rules count if that is not requests, for example tokens: they then read "1M tokens/1d",
	// and each may omit it. Such a policy counts amounts, up to 1000T, and its checks can hold them.
	Unit string `json:"unit,omitzero" yaml:"unit,omitempty"`
	// TimeZone is where the periods of rules of the calendar begin at midnight, as in "1000/calendar-month" and
	// "50/calendar-day": a name of the IANA database, for example Europe/Berlin; UTC if omitted.
	TimeZone string `json:"time_zone,omitzero" yaml:"time_zone,omitempty"`
	// Cost is the amount of a check that says none; 1 if omitted.
	Cost int `json:"cost,omitzero" yaml:"cost,omitempty"`
	// Hold is for how long a check holds its cost if it says nothing itself, 1s to 1d; it then charges it if
	// omitted. A rule such as "16 concurrent", which limits how many holds are open at once, needs it.
	Hold Duration `json:"hold,omitzero" yaml:"hold,omitempty"`
	// OnExpiry is what a hold that was never settled leaves: all that it held, or nothing. If omitted, keep,
	// and release where the rules only limit what is concurrent.
	OnExpiry string `json:"on_expiry,omitzero" yaml:"on_expiry,omitempty" enum:"keep,release"`
	// Options are those of the algorithm; omitted if all have their defaults.
	Options PolicyOptions `json:"options,omitzero" yaml:"options,omitempty,flow"`
	// Escalation is null or omitted for none.
	Escalation *Escalation `json:"escalation" yaml:"escalation,omitempty" always:"answer"`
}

// Escalation is a policy's escalation.
type Escalation struct {
	Threshold   int      `json:"threshold" yaml:"threshold"` // offences within the window that lead to a block
	Window      Duration `json:"window" yaml:"window"`       // the time in which offences are counted
	Duration    Duration `json:"duration" yaml:"duration"`
	Factor      float64  `json:"factor" yaml:"factor"`             // each block is as many times longer than the one before
	MaxDuration Duration `json:"max_duration" yaml:"max_duration"` // of the longest block
	DecayAfter  Duration `json:"decay_after" yaml:"decay_after"`   // the time without offences after which the level falls by one
	// ChallengeLevels is how many of the first blocks challenge: clients pass once their browsers have
	// solved a challenge. 0 or omitted, all blocks refuse; at most 10.
	ChallengeLevels int `json:"challenge_levels,omitzero" yaml:"challenge_levels,omitempty"`
}

// Policy is one version of a policy.
type Policy struct {
	PolicyRequest
	Version int64 `json:"version"`
	// ETag names this version of this policy, for If-Match: a policy that is made again
	// under the same name has other ones.
	ETag      string `json:"etag"`
	CreatedAt Time   `json:"created_at"`
	UpdatedAt Time   `json:"updated_at"`
	UpdatedBy string `json:"updated_by"`
	// Warnings point out what is valid but probably a mistake.
	Warnings []string `json:"warnings"`
}

// Tag returns the policy's ETag.
func (p Policy) Tag() string { return p.ETag }

// PolicyList selects policies.
type PolicyList struct {
	Search string `query:"search" json:"-"`                                 // Only policies whose name or pattern contains this text, case-insensitive.
	Order  string `query:"order" json:"-" enum:"name,mode,version,updated"` // name, also if omitted; mode: enforce, shadow, off; version: the most often changed first; updated: the last changed first.
	WholeList
}

// PolicyDraft is a policy that is not saved.
type PolicyDraft struct {
	Policy string `path:"name" json:"-"`
	PolicyRequest
}

// PolicyTrialOf is a policy that is not saved, and how much recorded traffic it is tried on.
type PolicyTrialOf struct {
	Policy string   `path:"name" json:"-"`
	Last   Duration `query:"last" json:"-"` // How far back, 1m to 31d; 24h if omitted.
	PolicyRequest
}

// PolicyBacktestOf names a policy that is not saved and tried on an access log; the policy and the log
// are in a form.
type PolicyBacktestOf struct {
	Policy string `path:"name" json:"-"`
}

// PolicyDiffOf selects two versions of a policy.
type PolicyDiffOf struct {
	Name string `path:"name" json:"-"`
	From *int   `query:"from" json:"-" range:"1073741824"` // The earlier version, 0 for none; by default the one before to.
	To   int    `query:"to" json:"-" range:"1073741824"`   // The later version; by default the newest.
}

// PolicyPut creates or replaces a policy.
type PolicyPut struct {
	Of      string `path:"name" json:"-"`
	Expect  string `header:"If-Match" json:"-"`
	Confirm string `query:"confirm" json:"-"` // The policy's name. It is needed if every request of a broad pattern is newly refused, or if keys leave an enforcing policy for another one or for none: by a deletion, by a change of mode, patterns or conditions, or by a policy that is off. The answer 409 confirmation_required says to which, and how many keys of the recorded traffic.
	PolicyRequest
}

// PolicyDeletion deletes a policy.
type PolicyDeletion struct {
	Name    string `path:"name" json:"-"`
	Expect  string `header:"If-Match" json:"-" required:"Deleting a policy"`
	Confirm string `query:"confirm" json:"-"` // The policy's name. It is needed if every request of a broad pattern is newly refused, or if keys leave an enforcing policy for another one or for none: by a deletion, by a change of mode, patterns or conditions, or by a policy that is off. The answer 409 confirmation_required says to which, and how many keys of the recorded traffic.
}

// PolicyPromotion puts a draft in force.
type PolicyPromotion struct {
	Name    string `path:"name" json:"-"`
	Expect  string `header:"If-Match" json:"-" required:"Promoting a draft"`
	Confirm string `query:"confirm" json:"-"` // The policy's name. It is needed if every request of a broad pattern is newly refused, or if keys leave an enforcing policy for another one or for none: by a deletion, by a change of mode, patterns or conditions, or by a policy that is off. The answer 409 confirmation_required says to which, and how many keys of the recorded traffic.
}

// PolicyExport selects the format of a file of all policies.
type PolicyExport struct {
	Format string `query:"format" json:"-" enum:"json,yaml"` // json if omitted.
}

// PresetPreviewOf selects a preset and how much traffic it is compared with.
type PresetPreviewOf struct {
	Name string   `path:"name" json:"-"`
	Last Duration `query:"last" json:"-"` // How far back, 1m to 31d; 24h if omitted.
}

// The operations of policies. Package api has those that take a policy.
var (
	ListAlgorithms = Op[None, Page[Algorithm]]{
		ID: "listAlgorithms", Route: "GET " + PathAlgorithms, Access: "read", Tag: TagPolicies,
		Summary: "List the algorithms that a policy may use.", Answer: "The algorithms, the default first.",
	}
	ListPolicies = Op[PolicyList, Page[Policy]]{
		ID: "listPolicies", Route: "GET " + PathPolicies, Access: "read", Tag: TagPolicies,
		Summary: "List the policies, all or a page.", Answer: "The policies.",
	}
	GetPolicy = Op[ByName, Policy]{
		ID: "getPolicy", Route: "GET " + PathPolicies + "/:name", Access: "read", Tag: TagPolicies,
		Summary: "Show a policy.", Answer: "The policy.",
	}
	ListPolicyVersions = Op[ByName, Page[Policy]]{
		ID: "listPolicyVersions", Route: "GET " + PathPolicies + "/:name/versions", Access: "read", Tag: TagPolicies,
		Summary: "List the versions of a policy, the newest first.", Answer: "The versions.",
	}
	ExplainPolicy = Op[ByName, PolicyExplanation]{
		ID: "explainPolicy", Route: "GET " + PathPolicies + "/:name/explain", Access: "read", Tag: TagPolicies,
		Summary: "Explain in words what a policy does, and how soon its limits are used up at full speed.", Answer: "The explanation.",
	}
	RollBackPolicy = Op[PolicyRollback, Policy]{
		ID: "rollBackPolicy", Route: "POST " + PathPolicies + "/:name/rollback", Access: "admin", Tag: TagPolicies, OptionalBody: true,
		Summary: "Restore an earlier version of a policy as a new version, in place of the one whose ETag If-Match has. With If-Match: * and a version it creates a deleted policy again.", Answer: "The new version.",
	}
	PutPolicy = Op[PolicyPut, Policy]{
		ID: "putPolicy", Route: "PUT " + PathPolicies + "/:name", Access: "admin", Tag: TagPolicies,
		Summary: "Create a policy, or replace the one whose ETag If-Match has.", Answer: "Replaced.", Made: "Created.",
	}
	DeletePolicy = Op[PolicyDeletion, None]{
		ID: "deletePolicy", Route: "DELETE " + PathPolicies + "/:name", Access: "admin", Tag: TagPolicies,
		Summary: "Delete the policy whose ETag If-Match has.", Answer: "Deleted.",
	}
	DiffPolicy = Op[PolicyDiffOf, PolicyDiff]{
		ID: "diffPolicy", Route: "GET " + PathPolicies + "/:name/diff", Access: "read", Tag: TagPolicies,
		Summary: "Compare two versions of a policy.", Answer: "What differs.",
	}
	ExplainDraft = Op[PolicyDraft, PolicyExplanation]{
		ID: "explainDraft", Route: "POST " + PathPolicies + "/:name/explain", Access: "read", Tag: TagPolicies, ReadOnly: true,
		Summary: "Explain in words what a policy would do, what it changes in the active version, and whether saving it needs a confirmation. Nothing is saved.", Answer: "The explanation.",
	}
	TryPolicy = Op[PolicyTrialOf, PolicyTrial]{
		ID: "tryPolicy", Route: "POST " + PathPolicies + "/:name/try", Access: "admin", Tag: TagPolicies, Slow: true, ReadOnly: true,
		Summary: "Replay the recorded traffic through a policy that is not saved, and compare it with the active policies. Nothing is saved or refused.", Answer: "What it would have done.",
	}
	BacktestPolicy = Op[PolicyBacktestOf, PolicyTrial]{
		ID: "backtestPolicy", Route: "POST " + PathPolicies + "/:name/backtest", Access: "admin", Tag: TagPolicies, ReadOnly: true, Takes: []string{"multipart/form-data"},
		Summary: "Replay an access log of at most 64 MB through a policy that is not saved, and compare it with the active policies: a form with the field policy, a JSON document, and after it the file log.",
		Answer:  "What it would have done.",
	}
	CompareDraft = Op[ByName, DraftComparison]{
		ID: "compareDraft", Route: "GET " + PathPolicies + "/:name/draft", Access: "read", Tag: TagPolicies,
		Summary: "Compare a policy with its draft: the shadow policy NAME.draft, which runs beside it and decides about the same checks. To make a draft, put a policy of that name.",
		Answer:  "What differs, and what both decided since the draft was saved, at most in the last day.",
	}
	PromotePolicy = Op[PolicyPromotion, Policy]{
		ID: "promotePolicy", Route: "POST " + PathPolicies + "/:name/promote", Access: "admin", Tag: TagPolicies,
		Summary: "Put the draft of a policy, whose ETag If-Match has, in force in place of the policy. To discard a draft, delete it.", Answer: "The new version.",
	}
	RenamePolicy = Op[PolicyRename, Policy]{
		ID: "renamePolicy", Route: "POST " + PathPolicies + "/:name/rename", Access: "admin", Tag: TagPolicies,
		Summary: "Rename the policy whose ETag If-Match has. It keeps its counts, versions and offences; its draft is renamed too. Checks that name the policy must use the new name.",
		Answer:  "The policy under its new name.",
	}
	ListPresets = Op[None, Page[Preset]]{
		ID: "listPresets", Route: "GET " + PathPresets, Access: "read", Tag: TagPolicies,
		Summary: "List the presets: policy files that Stint ships. To apply one, send its policies to /v1/policy-set.", Answer: "The presets.",
	}
	PreviewPreset = Op[PresetPreviewOf, PresetPreview]{
		ID: "previewPreset", Route: "GET " + PathPresets + "/:name/preview", Access: "admin", Tag: TagPolicies, Slow: true,
		Summary: "Show what each path of the traps of a preset would have caught in the recorded traffic, and which keys. Nothing is saved or refused.",
		Answer:  "What they would have caught.",
	}
	ExportPolicies = Op[PolicyExport, File]{
		ID: "exportPolicies", Route: "GET " + PathPolicySet, Access: "read", Tag: TagPolicies,
		Summary: "Export all policies as one document.", Answer: "The document.",
	}
	PlanPolicies = Op[PolicyPlanOf, PolicyPlan]{
		ID: "planPolicies", Route: "POST " + PathPolicySet + "/plan", Access: "read", Tag: TagPolicies, ReadOnly: true,
		Summary: "Show what applying a document would change, and change nothing.", Answer: "What would be changed.",
	}
	ApplyPolicies = Op[PolicyApplication, PolicyPlan]{
		ID: "applyPolicies", Route: "POST " + PathPolicySet, Access: "admin", Tag: TagPolicies, ExpectsETags: true,
		Summary: "Make the policies what a document says, all or nothing.", Answer: "What was changed.",
	}
)
