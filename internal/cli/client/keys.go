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

// profilePath returns the path of a key's profile.
func profilePath(key string) string { return wire.PathKeys + "/" + url.PathEscape(key) }

// limitPath returns the path of a key's own limit.
func limitPath(key string) string { return wire.PathLimits + "/" + url.PathEscape(key) }

// Profile returns the profile of a key.
func (k Keys) Profile(ctx context.Context, key string) (*wire.Profile, error) {
	return call[wire.Profile](ctx, k.conn, get(profilePath(key)))
}

// PutProfile sets the plan, the labels and the note of a key if the profile's ETag is expect.
// An empty expect means that there must be no profile.
func (k Keys) PutProfile(ctx context.Context, key, expect string, p wire.ProfileRequest) (*wire.Profile, error) {
	return call[wire.Profile](ctx, k.conn, request{method: http.MethodPut, path: profilePath(key), header: ifMatch(expect), body: p})
}

// DeleteProfile deletes the profile of a key in any state.
func (k Keys) DeleteProfile(ctx context.Context, key string) error {
	return k.conn.do(ctx, request{method: http.MethodDelete, path: profilePath(key), header: ifMatch(AnyState)}, nil)
}

// PutLimit sets the own limit of a key.
func (k Keys) PutLimit(ctx context.Context, key string, l wire.OwnLimitRequest) (*wire.Profile, error) {
	return call[wire.Profile](ctx, k.conn, request{method: http.MethodPut, path: limitPath(key), body: l})
}

// EndLimit ends a key's own limit. The reason may be empty.
func (k Keys) EndLimit(ctx context.Context, key, reason string) (*wire.Profile, error) {
	return call[wire.Profile](ctx, k.conn, remove(limitPath(key), nil).with(param("reason", reason)))
}

// Profiles returns the profiles that filter selects, at most limit, all for 0.
func (k Keys) Profiles(ctx context.Context, filter url.Values, limit int) (Listing[wire.Profile], error) {
	return list[wire.Profile](ctx, k.conn, wire.PathProfiles, filter, limit)
}

// Active returns the keys that were checked, as filter selects them, at most limit, all for 0.
func (k Keys) Active(ctx context.Context, filter url.Values, limit int) (Listing[wire.ActiveKey], error) {
	return list[wire.ActiveKey](ctx, k.conn, wire.PathActiveKeys, filter, limit)
}

// Plans returns the number of keys with each plan.
func (k Keys) Plans(ctx context.Context) ([]wire.PlanCount, error) {
	return items[wire.PlanCount](ctx, k.conn, get(wire.PathPlans))
}

// ImportProfiles sets the plans, labels and notes of the keys of a file of a media type.
// options holds the API's query parameters.
func (k Keys) ImportProfiles(ctx context.Context, file io.Reader, media string, options url.Values) (*wire.ProfileImport, error) {
	return call[wire.ProfileImport](ctx, k.conn, request{method: http.MethodPost, path: wire.PathProfiles + "/import", query: options, stream: file, media: media, slow: true, readOnly: isDryRun(options)})
}

// ExportProfiles opens the profiles that filter selects as a file. The caller closes it. A read
// error means that the file is incomplete.
func (k Keys) ExportProfiles(ctx context.Context, filter url.Values) (io.ReadCloser, error) {
	return k.conn.openBody(ctx, get(wire.PathProfiles+"/export").with(filter))
}
