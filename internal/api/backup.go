package api

import (
	"context"
	"io"
	"net/http"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// backupType is the media type of a backup.
const backupType = "application/octet-stream"

var errNoBackups = fault.New(fault.NotFound, "This node keeps its data in Redis and Postgres; back those up with their own tools.")

func (s *API) handleBackup(c *httpserver.Call) error {
	if s.Backups == nil {
		return errNoBackups
	}
	ctx := c.Context()
	if err := s.Recorder.AddRecord(ctx, audit.Record{
		Actor: c.Actor(), Action: "backup.read", Object: "backup", Summary: "Read a backup of all data.",
	}); err != nil {
		return err
	}
	name := "stint-" + s.Now().UTC().Format("20060102T150405Z") + ".backup"
	return httpserver.Stream(c, backupType, name, s.Backups.Backup)
}

func (s *API) handleRestore(c *httpserver.Call) error {
	if s.Backups == nil {
		return errNoBackups
	}
	if string(c.Request().Header.ContentType()) != backupType {
		return fault.New(fault.Unsupported, "Send the backup as it is, with the header Content-Type: %s.", backupType)
	}
	detail, err := s.Backups.Restore(context.Background(), c.Actor(), bodyReader(c))
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.RestoreAnswer{RestoredAt: wire.At(s.Now()), Detail: detail})
}

// bodyReader returns the body as it arrives, for the streamed routes.
func bodyReader(c *httpserver.Call) io.Reader {
	return httpserver.BodyReader(c.Ctx.Context(), httpserver.ReadTimeout)
}
