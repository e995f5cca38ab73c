// Package operations is the part of the REST API for running an installation: the audit
// log, backups, jobs, notifications and reports.
package operations

import (
	"slices"

	"github.com/stint-dev/stint/internal/admin"
	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/wire"
)

// Deps are the use cases that the routes call.
type Deps struct {
	Audit         *use.Audit
	Undo          *admin.Undo
	Reports       *use.Reports
	Jobs          *use.Jobs
	Notifications *use.Notifications
	Backups       *use.Backups
}

// Routes returns the routes for d.
func Routes(d Deps) []openapi.Route {
	return slices.Concat(
		(&auditHandler{audit: d.Audit, undo: d.Undo}).routes(),
		(&reportHandler{reports: d.Reports}).routes(),
		[]openapi.Route{
			routes.Does(wire.ListJobs, d.Jobs.List),
			routes.Does(wire.ListRuns, d.Jobs.Runs),
			routes.Does(wire.RunJob, d.Jobs.Run),

			routes.Does(wire.ListNotifications, d.Notifications.List),
			routes.Does(wire.TestNotification, d.Notifications.Test),
			routes.Does(wire.ListChannels, d.Notifications.ListChannels),
			routes.Does(wire.AddChannel, d.Notifications.AddChannel),
			routes.Does(wire.GetChannel, d.Notifications.FindChannel),
			routes.Does(wire.ChangeChannel, d.Notifications.ChangeChannel),
			routes.Does(wire.DeleteChannel, d.Notifications.DeleteChannel),
			routes.Does(wire.ListSilences, d.Notifications.Silences),
			routes.Does(wire.AddSilence, d.Notifications.AddSilence),
			routes.Does(wire.EndSilence, d.Notifications.EndSilence),
		},
		(&backupHandler{backups: d.Backups}).routes(),
	)
}
