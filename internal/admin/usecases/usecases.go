// Package usecases lists the use cases of operators that front ends call. Those that need nothing but the database
// and the clock are made here, the others in internal/app.
package usecases

import (
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/admin/sources"
	"github.com/stint-dev/stint/internal/audit"
)

// UseCases are the use cases that the REST API and the pages share.
type UseCases struct {
	Audit     *operations.Audit
	Backups   *operations.Backups
	Bots      *operations.Bots
	Bouncers  *admin.Bouncers
	Connect   *operations.Connect
	Crawlers  operations.Crawlers // that the node has verified by DNS
	Detection *admin.Detection
	// Entries adds, changes and ends blocks and exemptions.
	Entries       *admin.Entries
	Jobs          *operations.Jobs
	Keys          *admin.Keys
	Nodes         *operations.Nodes
	Notifications *operations.Notifications
	Origins       operations.Origins // of addresses
	Policies      *admin.Policies
	Profiles      *profiles.Profiles
	Reports       *operations.Reports
	Sites         *operations.Sites
	Sources       *sources.Sources
	Tokens        *identities.Tokens
	Undo          *admin.Undo // nil disables it
	Users         *identities.Users
}

// Store is the database, as the use cases need it that need no other part of the node.
type Store interface {
	audit.Recorder
	audit.Store
	operations.NodeStore
}

// OnStore returns u with the use cases that need nothing but the database and the clock.
func (u UseCases) OnStore(s Store, now func() time.Time) UseCases {
	u.Audit = &operations.Audit{Store: s}
	u.Backups = &operations.Backups{Recorder: s, Now: now}
	u.Nodes = &operations.Nodes{Store: s, Now: now}
	return u
}
