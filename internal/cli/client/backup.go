package client

import (
	"context"
	"io"
	"net/http"

	"github.com/stint-dev/stint/internal/wire"
)

// Backup opens a backup of the embedded data, which the caller closes. A read
// that ends in an error means that the backup is not whole.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	answer, err := c.open(ctx, request{method: http.MethodGet, path: wire.PathBackup})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Restore replaces the embedded data by a backup.
func (c *Client) Restore(ctx context.Context, backup io.Reader) (*wire.RestoreAnswer, error) {
	answer, err := c.open(ctx, request{method: http.MethodPost, path: wire.PathRestore, stream: backup, media: "application/octet-stream"})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	restored := &wire.RestoreAnswer{}
	return restored, decode(answer, restored)
}
