package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
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

func (h *entryHandler) importEntries(c *httpserver.Call, kind blocks.Kind, onConflict string, in wire.EntryImport) (out wire.ImportAnswer, err error) {
	format, err := sentFormat(c, admin.BlocksCSV, admin.BlocksJSON, admin.BlocksPlain, admin.BlocksAuto)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), importTimeout)
	defer cancel()
	result, err := h.entries.Import(ctx, callerOf(c), routes.BodyReader(c), admin.ImportOptions{
		Kind: kind, Format: format, OnConflict: blocks.Conflict(onConflict), SkipBad: in.SkipBad, Literal: in.Literal, Column: in.Column, DryRun: in.DryRun, Confirm: in.Confirm,
		Source: in.Source, Reason: in.Reason, Expiry: blocks.Expiry{For: in.ExpiresIn.Std(), Until: in.ExpiresAt.Time},
	})
	if err != nil {
		return out, describeBroad(err)
	}
	return fromImport(result), nil
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

func (h *entryHandler) exportEntries(c *httpserver.Call, kind blocks.Kind, format string, in wire.EntryFilter) error {
	f, err := h.entryFilter(kind, in)
	if err != nil {
		return err
	}
	wanted := cmp.Or(admin.FileFormat(format), admin.BlocksCSV)
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
