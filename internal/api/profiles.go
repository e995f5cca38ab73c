package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	use "github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/wire"
)

// profileHandler serves the profiles of keys.
type profileHandler struct {
	common
	profiles *use.Profiles
}

func (h *profileHandler) routes() []route {
	const key = wire.PathKeys + "/:key"
	return []route{
		onAdmin(get, wire.PathProfiles, identity.Read, h.listProfiles, opListProfiles),
		streamed(post, wire.PathProfiles+"/import", identity.Operate, h.importProfiles, opImportProfiles),
		onAdmin(get, wire.PathProfiles+"/export", identity.Read, h.exportProfiles, opExportProfiles),
		onAdmin(get, wire.PathPlans, identity.Read, h.listPlans, opListPlans),
		onAdmin(get, key, identity.Read, h.getProfile, opGetProfile),
		onAdmin(put, key, identity.Operate, h.putProfile, opPutProfile),
		onAdmin(del, key, identity.Operate, h.deleteProfile, opDeleteProfile),
		onAdmin(put, wire.PathLimits+"/:key", identity.Operate, h.putLimit, opPutLimit),
		onAdmin(del, wire.PathLimits+"/:key", identity.Operate, h.endLimit, opEndLimit),
	}
}

var (
	profileParams = []openapi.Param{
		{Name: "plan", Doc: "Only keys of this plan."},
		{Name: "label", Doc: "Only keys with this label."},
		{Name: "search", Doc: "Only keys whose name or note contains this text, case-insensitive."},
		{Name: "limited", Doc: "Only keys with a limit of their own that is active.", Boolean: true},
	}
	opListProfiles = &openapi.Operation{
		ID: "listProfiles", Tag: "keys", Summary: "List the keys that have a plan, labels, a note or a limit of their own.",
		Query: append(profileParams[:4:4], cursorParam, limitParam), Answers: ok("A page of them, by key.", wire.Page[wire.Profile]{}),
	}
	opImportProfiles = &openapi.Operation{
		ID: "importProfiles", Tag: "keys", Summary: "Set the plans, labels and notes of up to 1,000,000 keys from CSV or JSON, all or nothing.",
		Doc: "A CSV names its columns: key, plan, labels (separated by spaces) and note. JSON is a list of objects, or one object on each line. " +
			"What a row leaves out is removed from its key; other keys and limits stay. A key that the file names twice is an invalid row.",
		BodyTypes: []string{"text/csv", "application/json", "application/x-ndjson"},
		Query: []openapi.Param{
			{Name: "skip_bad", Doc: "Leave invalid rows out instead of importing nothing.", Boolean: true},
			{Name: "dry_run", Doc: "Change nothing, and answer with what would be done, invalid rows included.", Boolean: true},
		},
		Answers: ok("What was done.", wire.ProfileImport{}),
	}
	opExportProfiles = &openapi.Operation{
		ID: "exportProfiles", Tag: "keys", Summary: "Export the plans, labels and notes of keys in the format that an import reads.",
		Query:   append([]openapi.Param{{Name: "format", Doc: "csv if omitted.", Enum: []string{"csv", "json"}}}, profileParams...),
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The file.", Types: []string{"text/csv", "application/x-ndjson"}, Headers: file}},
	}
	opListPlans     = &openapi.Operation{ID: "listPlans", Tag: "keys", Summary: "List the plans, with the number of keys of each and the policy that applies to them.", Answers: ok("The plans, the most keys first, at most 1,000.", wire.Page[wire.PlanCount]{})}
	opGetProfile    = &openapi.Operation{ID: "getProfile", Tag: "keys", Summary: "Show the plan, the labels, the note and the limit of a key.", Answers: routes.OKTagged("Its plan, labels, note and limit.", wire.Profile{})}
	opPutProfile    = &openapi.Operation{ID: "putProfile", Tag: "keys", Summary: "Set the plan, the labels and the note of a key, or replace those whose ETag If-Match has.", IfMatch: true, Body: wire.ProfileRequest{}, Answers: routes.OKTagged("The plan, labels, note and limit of the key now.", wire.Profile{})}
	opDeleteProfile = &openapi.Operation{ID: "deleteProfile", Tag: "keys", Summary: "Delete the plan, the labels, the note and the limit of a key, whose ETag If-Match has.", IfMatch: true, Answers: []openapi.Answer{{Status: http.StatusNoContent, Doc: "It is deleted."}}}
	opPutLimit      = &openapi.Operation{
		ID: "putLimit", Tag: "keys", Summary: "Give a key a limit of its own, which replaces an earlier one.",
		Doc: "Until it expires or is ended, its rules replace those of the key's policy. Requests that were counted before still count. Blocks, exemptions, policies with conditions or an outcome, and policies that a check names still apply.", Body: wire.OwnLimitRequest{},
		Answers: routes.OKTagged("The plan, labels, note and limit of the key now.", wire.Profile{}),
	}
	opEndLimit = &openapi.Operation{ID: "endLimit", Tag: "keys", Summary: "End a key's own limit.", Query: []openapi.Param{{Name: "reason", Doc: "Why, for the audit."}}, Answers: routes.OKTagged("What the key still has.", wire.Profile{})}
)

// keyParam returns the key in the path, unescaped.
func keyParam(c *httpserver.Call) (string, error) {
	text, err := url.PathUnescape(c.Params("key"))
	if err != nil || len(text) > keys.MaxLength {
		return "", fault.Field("key", "must be a percent-encoded key of at most %d bytes", keys.MaxLength)
	}
	return strings.Clone(text), nil
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

// sendProfile answers with a profile, or returns err.
func (h *profileHandler) sendProfile(c *httpserver.Call, p *profiles.Profile, err error) error {
	if err != nil {
		return err
	}
	return routes.SendTagged(c, http.StatusOK, profiles.TagOf(p), h.fromProfile(p))
}

func (h *profileHandler) getProfile(c *httpserver.Call) error {
	key, err := keyParam(c)
	if err != nil {
		return err
	}
	p, err := h.profiles.Find(c.Context(), key)
	return h.sendProfile(c, p, err)
}

func (h *profileHandler) putProfile(c *httpserver.Call) error {
	key, err := keyParam(c)
	if err != nil {
		return err
	}
	expect, err := routes.IfMatch(c)
	if err != nil {
		return err
	}
	var request wire.ProfileRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	p, err := h.profiles.Put(c.Context(), callerOf(c), key, use.Change{Plan: request.Plan, Labels: request.Labels, Note: request.Note}, expect)
	return h.sendProfile(c, p, err)
}

func (h *profileHandler) deleteProfile(c *httpserver.Call) error {
	key, err := keyParam(c)
	if err != nil {
		return err
	}
	expect, err := routes.NeedIfMatch(c, "Deleting the profile of a key")
	if err != nil {
		return err
	}
	if _, err := h.profiles.Delete(c.Context(), callerOf(c), key, expect); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

func (h *profileHandler) putLimit(c *httpserver.Call) error {
	key, err := keyParam(c)
	if err != nil {
		return err
	}
	var request wire.OwnLimitRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	p, err := h.profiles.SetLimit(c.Context(), callerOf(c), key, use.OwnLimit{
		Rules: request.Rules, Reason: request.Reason, Expiry: admin.ExpiryOf(request.ExpiresIn, request.ExpiresAt),
	})
	return h.sendProfile(c, p, err)
}

func (h *profileHandler) endLimit(c *httpserver.Call) error {
	key, err := keyParam(c)
	if err != nil {
		return err
	}
	q := c.ParseQuery("reason")
	reason := q.Line("reason")
	if q.Err() != nil {
		return q.Err()
	}
	p, err := h.profiles.EndLimit(c.Context(), callerOf(c), key, reason)
	return h.sendProfile(c, p, err)
}

// profileFilter reads the parameters that select profiles.
func profileFilter(q *httpserver.Query) profiles.Filter {
	return profiles.Filter{Plan: q.Line("plan"), Label: q.Line("label"), Search: q.Line("search"), Limited: q.Flag("limited")}
}

func (h *profileHandler) listProfiles(c *httpserver.Call) error {
	q := c.ParseQuery("plan", "label", "search", "limited", "cursor", "limit")
	f := profileFilter(q)
	f.Cursor, f.Limit = q.Raw("cursor"), q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	f.Uncounted = f.Cursor != "" // the first page has the count, which reads every match
	page, err := h.profiles.List(c.Context(), f)
	if err != nil {
		return err
	}
	out := routes.CursorPage(page.Items, page.Next, h.fromProfile)
	if !f.Uncounted {
		out.Total = &page.Total
	}
	return c.SendJSON(http.StatusOK, out)
}

func (h *profileHandler) listPlans(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	all, err := h.profiles.Plans(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(all, func(p use.PlanUse) wire.PlanCount {
		return wire.PlanCount{Plan: p.Plan, Keys: p.Keys, Policy: wire.NullString(p.Policy)}
	}))
}

func (h *profileHandler) importProfiles(c *httpserver.Call) error {
	format, err := sentFormat(c, use.CSV, use.JSON)
	if err != nil {
		return err
	}
	q := c.ParseQuery("skip_bad", "dry_run")
	o := use.ImportOptions{Format: format, SkipBad: q.Flag("skip_bad"), DryRun: q.Flag("dry_run")}
	if q.Err() != nil {
		return q.Err()
	}
	ctx, cancel := context.WithTimeout(context.Background(), importTimeout)
	defer cancel()
	did, err := h.profiles.Import(ctx, callerOf(c), routes.BodyReader(c), o)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.fromImport(did))
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

func (h *profileHandler) exportProfiles(c *httpserver.Call) error {
	q := c.ParseQuery("format", "plan", "label", "search", "limited")
	f, wanted := profileFilter(q), q.OneOf("format", string(use.CSV), string(use.JSON))
	if q.Err() != nil {
		return q.Err()
	}
	format, media, name := use.CSV, "text/csv; charset=utf-8", "keys.csv"
	if wanted == string(use.JSON) {
		format, media, name = use.JSON, "application/x-ndjson", "keys.jsonl"
	}
	return httpserver.Stream(c, media, name, func(ctx context.Context, w io.Writer) error {
		return h.profiles.Export(ctx, w, f, format)
	})
}
