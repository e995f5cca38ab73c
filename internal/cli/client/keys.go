package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Keys imports what is kept about keys.
type Keys struct{ conn *conn }

// ImportProfiles sets the plans, labels and notes of the keys of a file of a media type.
// options holds the API's query parameters.
func (k Keys) ImportProfiles(ctx context.Context, file io.Reader, media string, options url.Values) (*wire.ProfileImport, error) {
	return call[wire.ProfileImport](ctx, k.conn, request{method: http.MethodPost, path: wire.PathProfiles + "/import", query: options, stream: file, media: media, slow: true, readOnly: isDryRun(options)})
}
