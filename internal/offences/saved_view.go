package offences

import "time"

// The bounds of saved views.
const (
	MaxSavedViews = 50
	MaxViewName   = 60 // characters
)

// SavedView is a named filter of the report of offenders, with its order and time range. All
// users share it.
type SavedView struct {
	ID   string
	Name string // unique
	// Query holds the parameters of GET /v1/offenders, encoded and sorted by name.
	Query   string
	Author  string // the user who first saved it
	Created time.Time
	// Updated and UpdatedBy are the time and the user of the last renaming or replacement;
	// initially Created and Author.
	Updated   time.Time
	UpdatedBy string
}
