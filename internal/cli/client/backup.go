package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Backups creates and restores backups of the embedded data.
type Backups struct{ conn *conn }

// Create opens a new backup. The caller closes it. A read error means that the backup is
// incomplete.
func (b Backups) Create(ctx context.Context) (io.ReadCloser, error) {
	return b.conn.openBody(ctx, get(wire.PathBackup))
}

// Restore replaces the embedded data with a backup, or only checks the backup if dryRun is
// set.
func (b Backups) Restore(ctx context.Context, backup io.Reader, dryRun bool) (*wire.RestoreAnswer, error) {
	r := request{method: http.MethodPost, path: wire.PathRestore, stream: backup, media: "application/octet-stream", slow: true, readOnly: dryRun}
	if dryRun {
		r = r.with(url.Values{"dry_run": {"true"}})
	}
	return call[wire.RestoreAnswer](ctx, b.conn, r)
}
