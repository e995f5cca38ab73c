package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// backupHandler reads and restores backups of the embedded data.
type backupHandler struct {
	backups  BackupStore // nil if the node has no embedded data
	recorder audit.Recorder
	now      func() time.Time
}

func (h *backupHandler) routes() []route {
	return []route{
		onAdmin(get, wire.PathBackup, identity.Admin, h.handleBackup, opBackup),
		streamed(post, wire.PathRestore, identity.Admin, h.handleRestore, opRestore),
	}
}

var (
	opBackup = &openapi.Operation{
		ID: "backup", Tag: "backup", Summary: "Read a backup of the embedded data.",
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The backup.", Types: []string{backupType}}},
	}
	opRestore = &openapi.Operation{
		ID: "restore", Tag: "backup", Summary: "Replace the embedded data by a backup.",
		BodyTypes: []string{backupType}, Answers: ok("What the backup held.", wire.RestoreAnswer{}),
	}
)

// backupType is the media type of a backup.
const backupType = "application/octet-stream"

// BackupStore keeps and brings back the embedded data while it is in use.
type BackupStore interface {
	// Backup writes everything, consistent in itself, to w.
	Backup(ctx context.Context, w io.Writer) error
	// Restore replaces everything by what r holds, all or nothing, and says in
	// one sentence what it was. It records itself, in the audit that it brought
	// back.
	Restore(ctx context.Context, by audit.Actor, r io.Reader) (string, error)
}

var errNoBackups = fault.New(fault.NotFound, "This node keeps its data in Redis and Postgres; back those up with their own tools.")

func (h *backupHandler) handleBackup(c *httpserver.Call) error {
	if h.backups == nil {
		return errNoBackups
	}
	if err := h.recorder.AddRecord(c.Context(), audit.Record{
		Actor: c.Actor(), Action: "backup.read", Object: "backup", Summary: "Read a backup of all data.",
	}); err != nil {
		return err
	}
	name := "stint-" + h.now().UTC().Format("20060102T150405Z") + ".backup"
	return httpserver.Stream(c, backupType, name, h.backups.Backup)
}

func (h *backupHandler) handleRestore(c *httpserver.Call) error {
	if h.backups == nil {
		return errNoBackups
	}
	if string(c.Request().Header.ContentType()) != backupType {
		return fault.New(fault.Unsupported, "Send the backup as it is, with the header Content-Type: %s.", backupType)
	}
	detail, err := h.backups.Restore(context.Background(), c.Actor(), bodyReader(c))
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.RestoreAnswer{RestoredAt: wire.At(h.now()), Detail: detail})
}

// bodyReader returns the body as it arrives, for the streamed routes.
func bodyReader(c *httpserver.Call) io.Reader {
	return httpserver.BodyReader(c.Ctx.Context(), httpserver.ReadTimeout)
}
