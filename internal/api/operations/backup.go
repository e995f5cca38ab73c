package operations

import (
	"context"

	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// backupHandler reads and restores backups of the embedded data.
type backupHandler struct {
	backups *use.Backups
}

func (h *backupHandler) routes() []openapi.Route {
	return []openapi.Route{
		routes.Writes(wire.CreateBackup, openapi.Answer{Types: []string{wire.BackupType}, Headers: routes.File}, h.create),
		routes.Answers(wire.RestoreBackup, h.restore),
	}
}

func (h *backupHandler) create(c *httpserver.Call, _ wire.None) error {
	name, write, err := h.backups.Create(c.Context(), routes.CallerOf(c))
	if err != nil {
		return err
	}
	return httpserver.Stream(c, wire.BackupType, name, write)
}

func (h *backupHandler) restore(c *httpserver.Call, in wire.Restoration) (out wire.RestoreAnswer, err error) {
	if err := h.backups.Available(); err != nil {
		return out, err
	}
	if string(c.Request().Header.ContentType()) != wire.BackupType {
		return out, fault.New(fault.Unsupported, "Send the backup as it is, with the header Content-Type: %s.", wire.BackupType)
	}
	if in.DryRun {
		detail, err := h.backups.Verify(context.Background(), routes.BodyReader(c))
		return wire.RestoreAnswer{DryRun: true, Detail: detail}, err
	}
	at, detail, err := h.backups.Restore(context.Background(), routes.CallerOf(c), routes.BodyReader(c))
	return wire.RestoreAnswer{RestoredAt: wire.At(at), Detail: detail}, err
}
