package operations

import (
	"context"
	"net/http"

	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// backupHandler reads and restores backups of the embedded data.
type backupHandler struct {
	backups *use.Backups
}

func (h *backupHandler) routes() []openapi.Route {
	return []openapi.Route{
		routes.OnAdmin(http.MethodGet, wire.PathBackup, identity.Admin, h.handleBackup, opBackup),
		routes.Streamed(http.MethodPost, wire.PathRestore, identity.Admin, h.handleRestore, opRestore),
	}
}

var (
	opBackup = &openapi.Operation{
		ID: "backup", Tag: "backup", Summary: "Download a backup of the embedded data.",
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The backup.", Types: []string{backupType}, Headers: routes.File}}, Conflict: true,
	}
	opRestore = &openapi.Operation{
		ID: "restore", Tag: "backup", Summary: "Replace the embedded data with a backup.",
		Query:     []openapi.Param{{Name: "dry_run", Doc: "Check the whole backup and say what it contains; nothing is changed.", Boolean: true}},
		BodyTypes: []string{backupType}, Answers: routes.OK("What the backup contains.", wire.RestoreAnswer{}),
	}
)

// backupType is the media type of a backup.
const backupType = "application/octet-stream"

func (h *backupHandler) handleBackup(c *httpserver.Call) error {
	name, write, err := h.backups.Create(c.Context(), routes.CallerOf(c))
	if err != nil {
		return err
	}
	return httpserver.Stream(c, backupType, name, write)
}

func (h *backupHandler) handleRestore(c *httpserver.Call) error {
	if err := h.backups.Available(); err != nil {
		return err
	}
	if string(c.Request().Header.ContentType()) != backupType {
		return fault.New(fault.Unsupported, "Send the backup as it is, with the header Content-Type: %s.", backupType)
	}
	q := c.ParseQuery("dry_run")
	dryRun := q.Flag("dry_run")
	if err := q.Err(); err != nil {
		return err
	}
	if dryRun {
		detail, err := h.backups.Verify(context.Background(), routes.BodyReader(c))
		if err != nil {
			return err
		}
		return c.SendJSON(http.StatusOK, wire.RestoreAnswer{DryRun: true, Detail: detail})
	}
	at, detail, err := h.backups.Restore(context.Background(), routes.CallerOf(c), routes.BodyReader(c))
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.RestoreAnswer{RestoredAt: wire.At(at), Detail: detail})
}
