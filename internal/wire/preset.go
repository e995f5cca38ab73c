package wire

// Preset is a policy file that Stint ships.
type Preset struct {
	Name     string          `json:"name"`     // as in admin apply --preset
	Title    string          `json:"title"`    // for people
	Summary  string          `json:"summary"`  // what it is for and what it does
	Policies []PolicyRequest `json:"policies"` // as applying it to policies without any of these names would make them
}
