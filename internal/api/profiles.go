package api

import (
	"context"
	"io"

	use "github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/wire"
)

// profileHandler serves the profiles of keys.
type profileHandler struct {
	common
	profiles *use.Profiles
}

func (h *profileHandler) routes() []route {
	return []route{
		routes.Answers(wire.ListProfiles, h.listProfiles),
		routes.Answers(wire.ImportProfiles, h.importProfiles),
		routes.Writes(wire.ExportProfiles, openapi.Answer{Types: []string{"text/csv", "application/x-ndjson"}, Headers: file}, h.exportProfiles),
		routes.Answers(wire.ListPlans, h.listPlans),
		routes.Answers(wire.GetProfile, func(c *httpserver.Call, in wire.ByKey) (wire.Profile, error) {
			return h.shown(h.profiles.Find(c.Context(), in.Key))
		}),
		routes.Answers(wire.PutProfile, func(c *httpserver.Call, in wire.ProfileRequest) (wire.Profile, error) {
			return h.shown(h.profiles.Put(c.Context(), callerOf(c), in))
		}),
		routes.Does(wire.DeleteProfile, h.profiles.Delete),
		routes.Answers(wire.PutLimit, func(c *httpserver.Call, in wire.OwnLimitRequest) (wire.Profile, error) {
			return h.shown(h.profiles.SetLimit(c.Context(), callerOf(c), in))
		}),
		routes.Answers(wire.EndLimit, func(c *httpserver.Call, in wire.EndLimitRequest) (wire.Profile, error) {
			return h.shown(h.profiles.EndLimit(c.Context(), callerOf(c), in))
		}),
	}
}

func (h *profileHandler) fromProfile(p *profiles.Profile) wire.Profile {
	out := wire.Profile{Key: p.Key, Plan: wire.NullString(p.Plan), Labels: notNil(p.Labels), Note: p.Note, UpdatedAt: wire.At(p.Updated), UpdatedBy: p.UpdatedBy, ETag: wire.NullString(profiles.TagOf(p))}
	out.Limit = fromOwnLimit(p.Limit, p.LimitAt(h.now()) != nil)
	return out
}

func fromOwnLimit(l *profiles.Limit, isActive bool) *wire.OwnLimit {
	if l == nil {
		return nil
	}
	return &wire.OwnLimit{Rules: l.Rules.Strings(), Reason: l.Reason, Author: l.Author, Active: isActive, CreatedAt: wire.At(l.Created), ExpiresAt: wire.At(l.Expires)}
}

// shown returns a profile as the API shows it.
func (h *profileHandler) shown(p *profiles.Profile, err error) (wire.Profile, error) {
	if err != nil {
		return wire.Profile{}, err
	}
	return h.fromProfile(p), nil
}

func profileFilter(f wire.ProfileFilter) profiles.Filter {
	return profiles.Filter{Plan: f.Plan, Label: f.Label, Search: f.Search, Limited: f.Limited}
}

func (h *profileHandler) listProfiles(c *httpserver.Call, in wire.ProfileList) (page wire.Page[wire.Profile], err error) {
	f := profileFilter(in.ProfileFilter)
	f.Cursor, f.Limit = in.Cursor, in.Limit
	f.Uncounted = f.Cursor != "" // the first page has the count, which reads every match
	found, err := h.profiles.List(c.Context(), f)
	page = wire.NewPage(found.Items, found.Next, h.fromProfile)
	if !f.Uncounted {
		page.Total = &found.Total
	}
	return page, err
}

func (h *profileHandler) listPlans(c *httpserver.Call, _ wire.None) (wire.Page[wire.PlanCount], error) {
	all, err := h.profiles.Plans(c.Context())
	return wire.WholePage(all, func(p use.PlanUse) wire.PlanCount {
		return wire.PlanCount{Plan: p.Plan, Keys: p.Keys, Policy: wire.NullString(p.Policy)}
	}), err
}

func (h *profileHandler) importProfiles(c *httpserver.Call, in wire.ProfileImportOf) (out wire.ProfileImport, err error) {
	format, err := sentFormat(c, use.CSV, use.JSON)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), importTimeout)
	defer cancel()
	did, err := h.profiles.Import(ctx, callerOf(c), routes.BodyReader(c), use.ImportOptions{Format: format, SkipBad: in.SkipBad, DryRun: in.DryRun})
	if err != nil {
		return out, err
	}
	return h.fromImport(did), nil
}

// fromImport returns the result of an import of keys as the API shows it.
func (h *profileHandler) fromImport(did *use.ImportResult) wire.ProfileImport {
	out := wire.ProfileImport{
		DryRun: did.DryRun, Rows: did.Rows, Created: did.Created, Replaced: did.Replaced, Unchanged: did.Unchanged,
		Invalid: did.Invalid, Limits: did.Limits, InvalidRows: fromBadRows(did.Bad), Plans: []wire.ImportedPlan{}, Changes: []wire.ProfileImportChange{},
	}
	for _, p := range did.Plans {
		out.Plans = append(out.Plans, wire.ImportedPlan{Plan: p.Plan, Rows: p.Rows, Policy: wire.NullString(p.Policy)})
	}
	for _, change := range did.Changes {
		after := change.After
		shown := wire.ProfileImportChange{Line: change.Line, Key: after.Key, After: wire.ProfileRequest{Plan: after.Plan, Labels: after.Labels, Note: after.Note}}
		if was := change.Before; was != nil {
			shown.Before = &wire.ProfileRequest{Plan: was.Plan, Labels: was.Labels, Note: was.Note}
		}
		out.Changes = append(out.Changes, shown)
	}
	return out
}

func (h *profileHandler) exportProfiles(c *httpserver.Call, in wire.ProfileExport) error {
	format, media, name := use.CSV, "text/csv; charset=utf-8", "keys.csv"
	if in.Format == string(use.JSON) {
		format, media, name = use.JSON, "application/x-ndjson", "keys.jsonl"
	}
	return httpserver.Stream(c, media, name, func(ctx context.Context, w io.Writer) error {
		return h.profiles.Export(ctx, w, profileFilter(in.ProfileFilter), format)
	})
}
