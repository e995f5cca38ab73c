package operations

import (
	"context"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// SiteStore records what operators say of sites.
type SiteStore interface {
	CorrectSite(ctx context.Context, by audit.Actor, r wire.SiteRequest) error
}

// Sites is the use case of showing and correcting what was learned of sites.
type Sites struct {
	Sites *answers.Sites // nil on a node that learns nothing
	Store SiteStore
}

// Learns reports whether the node learns what sites answer.
func (s *Sites) Learns() bool { return s.Sites != nil }

// List returns the sites whose answers are reported.
func (s *Sites) List(context.Context, admin.Caller, wire.None) (wire.Page[wire.Site], error) {
	return wire.WholePage(s.Sites.Heard(), func(h answers.HeardSite) wire.Site {
		return wire.Site{Host: h.Host, MissingStatuses: h.Missing, OwnPrograms: h.Own, OwnPaths: append([]string{}, h.PathsOwn...), Answers: h.Answers}
	}), nil
}

// Correct names paths that are a site's own, and forgets what was learned if asked to. Without OwnPaths those named
// before stay.
func (s *Sites) Correct(ctx context.Context, by admin.Caller, r wire.SiteRequest) (none wire.None, err error) {
	r.Host = strings.ToLower(strings.TrimSpace(r.Host))
	if len(r.Host) > answers.MaxHost || strings.ContainsFunc(r.Host, isNotOfHosts) {
		return none, fault.Field("host", "must be the name of a host without port, at most %d characters", answers.MaxHost)
	}
	if len(r.OwnPaths) > answers.MaxOwn {
		return none, fault.Field("own_paths", "has %d patterns; at most %d are allowed", len(r.OwnPaths), answers.MaxOwn)
	}
	if r.OwnPaths == nil && !r.Forget {
		return none, fault.Field("own_paths", "is missing: name paths, an empty list for none, or forget what was learned")
	}
	if err := answers.CheckOwn(r.OwnPaths); err != nil {
		return none, fault.Field("own_paths", "%s", err)
	}
	if slices.ContainsFunc(r.OwnPaths, selectsAll) {
		return none, fault.Field("own_paths", "select every path, so that no request would be a probe; name the paths that the site has, or switch learning off for all sites (--learn-sites=false)")
	}
	if err := s.Store.CorrectSite(ctx, by.Actor, r); err != nil {
		return none, err
	}
	// The correction is stored: what cannot be read now is read within a minute.
	_ = s.Sites.Exchange(ctx)
	return none, nil
}

// selectsAll reports whether a pattern of paths is nothing but stars and slashes.
func selectsAll(pattern string) bool { return strings.Trim(pattern, "*/") == "" && pattern != "/" }

func isNotOfHosts(r rune) bool { return r <= ' ' || r == '/' || r > '~' }
