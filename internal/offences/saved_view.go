package offences

import "time"

// The bounds of saved views.
const (
	MaxSavedViews = 50
	MaxViewName   = 60 // characters
)

// SavedView is a filter of the report of offenders with its order and time range, under a
// name. All users share it.
type SavedView struct {
	ID   string
	Name string // unique
	// Query holds the parameters of GET /v1/offenders, encoded and sorted by name.
	Query   string
	Author  string // who saved it first
	Created time.Time
	// Updated is when it was renamed or replaced last, and by whom; it begins as Created
	// and Author.
	Updated   time.Time
	UpdatedBy string
}
