package api

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// importTimeout bounds one import, its upload included.
const importTimeout = 15 * time.Minute

// fileFormats are the media types of the file formats. An export of entries is sent with the
// first of each.
var fileFormats = []struct {
	format    admin.FileFormat
	media     []string
	extension string
}{
	{admin.BlocksCSV, []string{"text/csv"}, ".csv"},
	{admin.BlocksJSON, []string{"application/json", "application/x-ndjson"}, ".json"},
	{admin.BlocksPlain, []string{"text/plain"}, ".txt"},
	{admin.BlocksAuto, []string{"application/octet-stream", "application/gzip"}, ""},
}

// sentFormat returns the format in a request's Content-Type, which must be one of allowed.
func sentFormat(c *httpserver.Call, allowed ...admin.FileFormat) (admin.FileFormat, error) {
	if coding := c.Get(fiber.HeaderContentEncoding); coding != "" && !strings.EqualFold(coding, "identity") {
		return "", fault.New(fault.Unsupported, "Send the body as it is, without a Content-Encoding.")
	}
	given, params, err := mime.ParseMediaType(string(c.Request().Header.ContentType()))
	charset, stated := params["charset"]
	isText := err == nil && (!stated || strings.EqualFold(charset, "utf-8"))
	var known []string
	for _, f := range fileFormats {
		if !slices.Contains(allowed, f.format) {
			continue
		}
		if isText && slices.Contains(f.media, given) {
			return f.format, nil
		}
		known = append(known, f.media...)
	}
	last := len(known) - 1
	return "", fault.New(fault.Unsupported, "Send the header Content-Type: %s or %s; the body must be UTF-8.", strings.Join(known[:last], ", "), known[last])
}

func (h *entryHandler) importEntries(c *httpserver.Call, kind blocks.Kind) error {
	answer, err := h.runImport(c, kind)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, answer)
}

func (h *entryHandler) runImport(c *httpserver.Call, kind blocks.Kind) (*wire.ImportAnswer, error) {
	format, err := sentFormat(c, admin.BlocksCSV, admin.BlocksJSON, admin.BlocksPlain, admin.BlocksAuto)
	if err != nil {
		return nil, err
	}
	q := c.ParseQuery("on_conflict", "skip_bad", "dry_run", "source", "reason", "expires_in", "expires_at", "confirm", "literal", "column")
	options := admin.ImportOptions{
		Kind: kind, Format: format, OnConflict: blocks.Conflict(q.OneOf("on_conflict", wire.ConflictKeep, wire.ConflictExtend, wire.ConflictReplace)),
		SkipBad: q.Flag("skip_bad"), Literal: q.Flag("literal"), Column: q.Line("column"), DryRun: q.Flag("dry_run"), Confirm: q.Line("confirm"),
		Source: q.Line("source"), Reason: q.Line("reason"), Expiry: blocks.Expiry{For: q.Duration("expires_in"), Until: q.Time("expires_at")},
	}
	if q.Err() != nil {
		return nil, q.Err()
	}
	ctx, cancel := context.WithTimeout(context.Background(), importTimeout)
	defer cancel()
	result, err := h.entries.Import(ctx, callerOf(c), routes.BodyReader(c), options)
	if err != nil {
		return nil, describeBroad(err)
	}
	answer := fromImport(result)
	return &answer, nil
}

// describeBroad adds to an error the rows of the file that need a confirmation.
func describeBroad(err error) error {
	var needs *admin.NeedsConfirmation
	var mistake *fault.Error
	if !errors.As(err, &needs) || !errors.As(err, &mistake) {
		return err
	}
	described := *mistake
	described.Detail = map[string]any{"confirm": needs.Digest, "broad_count": needs.Count, "broad": fromFindings(needs.Findings)}
	return &described
}

// exportFormats are the formats of an export. A plain list does not say that it exempts, so that
// an import of blocks would take it.
func exportFormats(kind blocks.Kind) []string {
	if kind == blocks.Exemption {
		return []string{string(admin.BlocksCSV), string(admin.BlocksJSON)}
	}
	return []string{string(admin.BlocksCSV), string(admin.BlocksJSON), string(admin.BlocksPlain)}
}

// exportParams are the query parameters of an export of entries.
var exportParams = []string{"format", "state", "source", "author", "search", "key", "within", "literal", "lists"}

func (h *entryHandler) exportEntries(c *httpserver.Call, kind blocks.Kind) error {
	f, err := h.entryFilter(c, kind, exportParams)
	if err != nil {
		return err
	}
	q := c.ParseQuery(exportParams...)
	wanted := admin.FileFormat(q.OneOf("format", exportFormats(kind)...))
	if q.Err() != nil {
		return q.Err()
	}
	if wanted == "" {
		wanted = admin.BlocksCSV
	}
	media, extension := "", ""
	for _, known := range fileFormats {
		if known.format == wanted {
			media, extension = known.media[0], known.extension
		}
	}
	if wanted != admin.BlocksJSON {
		media += "; charset=utf-8"
	}
	return httpserver.Stream(c, media, strings.TrimPrefix(entryPath(kind), "/v1/")+extension, func(ctx context.Context, w io.Writer) error {
		return h.entries.Export(ctx, w, f, wanted)
	})
}

// fromImport returns the result of an import as the API shows it.
func fromImport(r *admin.ImportResult) wire.ImportAnswer {
	out := wire.ImportAnswer{
		DryRun: r.DryRun, Rows: r.Rows, Created: r.Created, Extended: r.Extended, Replaced: r.Replaced, Unchanged: r.Unchanged,
		Invalid: r.Invalid, Exempt: r.Exempt, Ended: r.Ended, InvalidRows: fromBadRows(r.Bad), Estimate: fromTraffic(r.Traffic),
	}
	out.Broad = []wire.BroadRow{}
	if c := r.Confirmation; c != nil {
		out.Confirm, out.BroadCount, out.Broad = wire.NullString(c.Digest), c.Count, fromFindings(c.Findings)
	}
	return out
}

// fromBadRows returns the invalid rows of a file as the API shows them.
func fromBadRows(all []admin.BadRow) []wire.BadRow {
	rows := make([]wire.BadRow, len(all))
	for i, bad := range all {
		rows[i] = wire.BadRow(bad)
	}
	return rows
}

// fromFindings returns as the API shows it why a file needs a confirmation.
func fromFindings(all []admin.Finding) []wire.BroadRow {
	rows := make([]wire.BroadRow, len(all))
	for i, f := range all {
		rows[i] = wire.BroadRow{Line: f.Line, Rows: f.Rows, Pattern: wire.NullString(f.Pattern.String()), ConfirmReason: f.Reason, Exemptions: []string{}}
		if f.Impact == nil {
			continue
		}
		rows[i].Estimate, rows[i].Hidden, rows[i].BlocksCaller = fromTraffic(f.Impact.Traffic), f.Impact.IsExempt, f.Impact.BlocksCaller
		for _, e := range f.Impact.Exemptions {
			rows[i].Exemptions = append(rows[i].Exemptions, e.Pattern.String())
		}
	}
	return rows
}
