package wire

// Attack says whether more is refused now than normally.
type Attack struct {
	At     Time `json:"at"`
	Active bool `json:"active"` // whether there is an attack
	// Since is when the attack began; null if there is none.
	Since Time  `json:"since"`
	Now   Rates `json:"now"` // the checks of the last minutes
	// Baseline is what is normal: the medians of the hours of the last day. It
	// is null where fewer than two of them had any check.
	Baseline *Rates `json:"baseline"`
	// Source is the range or key with most of the offences since then; null
	// where there is no attack, or no range with half and no key with a third. Of the
	// further keys of policies only networks are sources.
	Source *AttackSource `json:"source"`
	// InForce names what applies only because an announced attack goes on. Such an attack may last
	// longer than active is true.
	InForce AttackMeasures `json:"in_force"`
}

// AttackMeasures are what is for attacks only and applies now.
type AttackMeasures struct {
	Policies []string `json:"policies"` // enforced policies with the condition attack
	Sources  []string `json:"sources"`  // of lists, see block-sources
}

// AnnouncedAttack is one attack from its beginning to its end.
type AnnouncedAttack struct {
	ID      string  `json:"id"`       // of the attack
	BeganAt Time    `json:"began_at"` // its first minute
	EndedAt Time    `json:"ended_at"` // null while it goes on
	Normal  float64 `json:"normal"`   // refused checks per second before it
	Peak    float64 `json:"peak"`     // the highest rate of refused checks per second
	Refused int64   `json:"refused"`  // checks refused since it began, all sources and the normal ones included
	// Sources are its main sources in the order in which they were found. It is empty where no
	// range had half of the offences and no key a third.
	Sources []AnnouncedSource `json:"sources"`
}

// AnnouncedSource is a main source of an attack, as it was when it was found.
type AnnouncedSource struct {
	At Time `json:"at"` // when it was found
	AttackSource
}

// Rates are checks per second.
type Rates struct {
	Allowed    float64 `json:"allowed"`
	Limited    float64 `json:"limited"`
	Challenged float64 `json:"challenged"` // refused until a challenge is solved
	Blocked    float64 `json:"blocked"`
}

// AttackSource is the range or key that has most of the offences of an attack.
type AttackSource struct {
	Pattern string  `json:"pattern"`
	Ratio   float64 `json:"ratio"` // of all offences since the attack began, 0 to 1
	Keys    int     `json:"keys"`  // that offended in the range; 0 if the source is one key
	// Policy and Rule limit most of its requests; null where all are blocked.
	Policy  NullString `json:"policy"`
	Rule    NullString `json:"rule"`
	Blocked bool       `json:"blocked"` // a block covers all of it
	Exempt  bool       `json:"exempt"`  // an exemption covers all of it
}
