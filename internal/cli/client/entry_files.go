package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Blocks manages blocks.
type Blocks struct{ Entries }

// Import adds the entries of a file of a media type. options holds the API's query
// parameters.
func (e Entries) Import(ctx context.Context, file io.Reader, media string, options url.Values) (*wire.ImportAnswer, error) {
	return call[wire.ImportAnswer](ctx, e.conn, request{
		method: http.MethodPost, path: e.path + "/import", query: options, stream: file, media: media, slow: true, readOnly: isDryRun(options),
	})
}

// Export opens the entries that filter selects as a file. The caller closes it. A read
// error means that the file is incomplete.
func (e Entries) Export(ctx context.Context, filter url.Values) (io.ReadCloser, error) {
	return e.conn.openBody(ctx, get(e.path+"/export").with(filter))
}
