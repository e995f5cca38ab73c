// Package audit has the records of changes: the actor, the object before and
// after, and the hash chain that shows that no record was altered.
package audit

import "time"

// ActorKind says what acts.
type ActorKind string

// The kinds of actor.
const (
	User   ActorKind = "user"
	Token  ActorKind = "token"
	System ActorKind = "system" // Stint itself: an escalation, a job, what is built in
)

// Actor is who makes a change. Every store method that changes something takes
// one and records it in the same transaction.
type Actor struct {
	Kind    ActorKind
	ID      string // the user's or token's id, "" for the system
	Name    string // what people see: the user, the token's name, "escalation"
	Address string // where the request came from, "" for the system
}

// SystemActor returns the actor of something that Stint does by itself.
func SystemActor(part string) Actor { return Actor{Kind: System, Name: part} }

// Record is one recorded change. Before and After are the JSON of the thing as
// the API shows it, nil where it did not exist, and never hold a secret.
type Record struct {
	ID       int64
	At       time.Time
	Actor    Actor
	Action   string // "policy.replace", "block.add", "block.end", ...
	Object   string // what kind of thing: "policy", "block", ...
	ObjectID string
	Summary  string // one sentence for people, safe to print
	Before   []byte
	After    []byte
	Revision int64
}
