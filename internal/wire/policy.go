package wire

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
	// name of a value of the request, such as "account"; behind it the rules of that key, if
	// they differ, for example "account 10/h 50/d". At most 4.
	Also []string `json:"also,omitzero" yaml:"also,omitempty"`
	Mode string   `json:"mode,omitzero" yaml:"mode,omitempty" always:"answer" enum:"enforce,shadow,off"` // whether it decides, only counts what it would refuse, or is off; enforce if omitted
	// OnFailure is what decides while the shared log is unreachable; local if omitted.
	OnFailure string `json:"on_failure,omitzero" yaml:"on_failure,omitempty" always:"answer" enum:"local,allow,deny"`
	// Algorithm is how requests are counted, see listAlgorithms; timestamp_log if omitted.
	Algorithm string `json:"algorithm,omitzero" yaml:"algorithm,omitempty" always:"answer"`
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
