package wire

// PolicyRequest is what PUT /v1/policies/{name} takes. Creating needs no
// If-Match; replacing needs the ETag of what it replaces, or *.
type PolicyRequest struct {
	Name  string   `json:"name,omitzero"` // as in the path, or omitted
	Match []string `json:"match"`         // the patterns of the keys that the policy applies to
	// When limits the policy to requests that meet its conditions; it then applies in
	// addition to the key's other policies.
	When PolicyWhen `json:"when,omitzero"`
	// Outcome makes reports of it charge the policy, and not checks: while there is no
	// room for one more report, every check of the key is refused. It then applies in
	// addition to the key's other policies, and its conditions are those of reports.
	Outcome string `json:"outcome,omitzero"`
	// Scope limits what a policy with an outcome refuses to checks whose request has that
	// scope. The blocks of its escalation have it too.
	Scope string   `json:"scope,omitzero"`
	Rules []string `json:"rules"`
	// Also are further keys that each request counts for, which is allowed only if the
	// limits of all allow it: "net:/24" and "net:/48", the networks of the address, or the
	// name of a value of the request, such as "account"; behind it the rules of that key, if
	// they differ, for example "account 10/h 50/d". At most 4.
	Also []string `json:"also,omitzero"`
	Mode string   `json:"mode,omitzero" enum:"enforce,shadow,off"` // enforce if omitted
	// OnFailure is local if omitted.
	OnFailure string `json:"on_failure,omitzero" enum:"local,allow,deny"`
	// Algorithm is timestamp_log if omitted.
	Algorithm string `json:"algorithm,omitzero"`
	// Options are those of the algorithm; omitted if all have their defaults.
	Options PolicyOptions `json:"options,omitzero"`
	// Escalation is null or omitted for none.
	Escalation *Escalation `json:"escalation,omitzero"`
}

// Escalation is a policy's escalation.
type Escalation struct {
	Threshold   int      `json:"threshold"` // offences within the window that lead to a block
	Window      Duration `json:"window"`    // the time in which offences are counted
	Duration    Duration `json:"duration"`
	Factor      float64  `json:"factor"`       // each block is as many times longer than the one before
	MaxDuration Duration `json:"max_duration"` // of the longest block
	DecayAfter  Duration `json:"decay_after"`  // the time without offences after which the level falls by one
}

// Policy is one version of a policy.
type Policy struct {
	Name  string   `json:"name"`
	Match []string `json:"match"` // the patterns of the keys that the policy applies to
	// When is omitted if the policy has no conditions.
	When PolicyWhen `json:"when,omitzero"`
	// Outcome is the outcome whose reports charge the policy; omitted if checks do.
	Outcome string `json:"outcome,omitzero"`
	// Scope is the scope of the checks that the policy may refuse; omitted if all.
	Scope string   `json:"scope,omitzero"`
	Rules []string `json:"rules"`
	// Also are the further keys that each request counts for; omitted for none.
	Also      []string `json:"also,omitzero"`
	Mode      string   `json:"mode" enum:"enforce,shadow,off"`
	OnFailure string   `json:"on_failure" enum:"local,allow,deny"`
	Algorithm string   `json:"algorithm"`
	// Options is omitted if all are default.
	Options    PolicyOptions `json:"options,omitzero"`
	Escalation *Escalation   `json:"escalation"`
	Version    int64         `json:"version"`
	// ETag names this version of this policy, for If-Match: a policy that is made again
	// under the same name has other ones.
	ETag      string `json:"etag"`
	CreatedAt Time   `json:"created_at"`
	UpdatedAt Time   `json:"updated_at"`
	UpdatedBy string `json:"updated_by"`
	// Warnings point out what is valid but probably a mistake.
	Warnings []string `json:"warnings"`
}

// Request returns the request that restores p.
func (p *Policy) Request() PolicyRequest {
	return PolicyRequest{
		Name: p.Name, Match: p.Match, When: p.When, Outcome: p.Outcome, Scope: p.Scope, Rules: p.Rules, Also: p.Also, Mode: p.Mode,
		OnFailure: p.OnFailure, Algorithm: p.Algorithm, Options: p.Options, Escalation: p.Escalation,
	}
}
