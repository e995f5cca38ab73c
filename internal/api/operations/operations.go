// Package operations is the part of the REST API for running an installation: the audit
// log, backups, jobs, notifications and reports.
package operations

import (
	"slices"

	"github.com/stint-dev/stint/internal/admin/usecases"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/wire"
)

// Routes returns the routes of use cases.
func Routes(use usecases.UseCases) []openapi.Route {
	return slices.Concat(
		(&auditHandler{audit: use.Audit, undo: use.Undo}).routes(),
		(&reportHandler{reports: use.Reports}).routes(),
		[]openapi.Route{
			routes.Does(wire.ListJobs, use.Jobs.List),
			routes.Does(wire.ListRuns, use.Jobs.Runs),
			routes.Does(wire.RunJob, use.Jobs.Run),

			routes.Does(wire.ListNotifications, use.Notifications.List),
			routes.Does(wire.TestNotification, use.Notifications.Test),
			routes.Does(wire.ListChannels, use.Notifications.ListChannels),
			routes.Does(wire.AddChannel, use.Notifications.AddChannel),
			routes.Does(wire.GetChannel, use.Notifications.FindChannel),
			routes.Does(wire.ChangeChannel, use.Notifications.ChangeChannel),
			routes.Does(wire.DeleteChannel, use.Notifications.DeleteChannel),
			routes.Does(wire.ListSilences, use.Notifications.Silences),
			routes.Does(wire.AddSilence, use.Notifications.AddSilence),
			routes.Does(wire.EndSilence, use.Notifications.EndSilence),
		},
		(&backupHandler{backups: use.Backups}).routes(),
	)
}
