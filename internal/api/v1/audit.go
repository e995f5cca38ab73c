package v1

import "github.com/go-json-experiment/json/jsontext"

// AuditEntry is one recorded change.
type AuditEntry struct {
	ID       int64  `json:"id"`
	At       Time   `json:"at"`
	Actor    Actor  `json:"actor"`
	Action   string `json:"action"` // for example block.lift
	Object   string `json:"object"`
	ObjectID string `json:"object_id"`
	Summary  string `json:"summary"`
	// Before and After are the thing as the API shows it, null where it did
	// not exist.
	Before   jsontext.Value `json:"before"`
	After    jsontext.Value `json:"after"`
	Revision int64          `json:"revision"`
}

// Actor is who made a change.
type Actor struct {
	Kind    string     `json:"kind"` // user, token or system
	ID      NullString `json:"id"`
	Name    string     `json:"name"`
	Address NullString `json:"address"`
}
