package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Keys explains and resets keys.
type Keys struct{ conn *conn }

// Explain returns what applies to a key now and why: under a policy or, if the name is empty,
// under the most specific match.
func (k Keys) Explain(ctx context.Context, key, policy string) (*wire.KeyExplanation, error) {
	return call[wire.KeyExplanation](ctx, k.conn, get(wire.PathKeys).with(keyQuery(key, policy)))
}

// Reset resets the counts of a key under a policy, or under all if the name is empty.
func (k Keys) Reset(ctx context.Context, key, policy string) (*wire.KeyReset, error) {
	return call[wire.KeyReset](ctx, k.conn, remove(wire.PathKeys, nil).with(keyQuery(key, policy)))
}

func keyQuery(key, policy string) url.Values {
	query := url.Values{"key": {key}}
	if policy != "" {
		query.Set("policy", policy)
	}
	return query
}

// ImportProfiles sets the plans, labels and notes of the keys of a file of a media type.
// options holds the API's query parameters.
func (k Keys) ImportProfiles(ctx context.Context, file io.Reader, media string, options url.Values) (*wire.ProfileImport, error) {
	return call[wire.ProfileImport](ctx, k.conn, request{method: http.MethodPost, path: wire.PathProfiles + "/import", query: options, stream: file, media: media, slow: true, readOnly: isDryRun(options)})
}
