package adminui

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

// maxListed bounds the keys that the page lists; it counts the others.
const maxListed = 100

// Filter returns the filters of the report and its time range with both ends
// fixed, so that the form selects the same keys when it is sent later.
func (p *offendersPageData) Filter() string {
	values := url.Values{}
	for name, all := range p.Query {
		values[name] = all
	}
	for _, own := range []string{"cursor", "at", "done", "ids", "sort", "columns", "state"} {
		values.Del(own)
	}
	values.Set("since", p.Range.From.Format(time.RFC3339))
	values.Set("until", p.Range.To.Format(time.RFC3339))
	return values.Encode()
}

// CanBlockAll reports whether more keys match than are listed, and no more than
// can be blocked at once.
func (p *offendersPageData) CanBlockAll() bool {
	return p.Query.Get("state") == "" && p.Report.Unread == 0 && p.Report.Keys > int64(len(p.Rows)) && p.Report.Keys <= admin.MaxMatching
}

// blockMatching blocks all keys that match the filters of a form. If the form has no duration,
// or its count of keys is outdated, the response is the page that asks for them.
func (h *bulkHandler) blockMatching(c *httpserver.Call, page *bulkPage, values url.Values) error {
	page.Filter = values.Get("filter")
	q, err := h.filterQuery(page.Filter)
	if err != nil {
		return err
	}
	patterns, err := h.entries.Matching(c.Context(), q)
	if err != nil {
		return err
	}
	page.All = len(patterns)
	for _, p := range patterns[:min(len(patterns), maxListed)] {
		page.Keys = append(page.Keys, p.String())
	}
	if page.For == "" {
		page.For, page.OnConflict = wire.DefaultBlock, wire.ConflictKeep
		return h.askBulk(c, http.StatusOK, page, patterns)
	}
	count, _ := strconv.Atoi(values.Get("count")) // 0 never matches
	var made blocks.ImportResult
	if page.ExpiresAt.Time, err = h.ParseExpiry(page.For, page.Until, h.Now()); err == nil {
		made, err = h.entries.BlockMatching(c.Context(), site.CallerOf(c), admin.BlockMatching{Query: q, Count: count, AddEntry: page.AddEntry})
	}
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.askBulk(c, site.StatusInvalidForm, page, patterns)
	}
	if made.RecordID == 0 {
		return h.ReturnTo(c, page.Back, "unchanged", nil)
	}
	return h.ReturnTo(c, page.Back, "allblocked", []string{strconv.FormatInt(made.RecordID, 10)})
}

// filterQuery parses the result of offendersPageData.Filter.
func (h *bulkHandler) filterQuery(filter string) (offences.Query, error) {
	values, err := url.ParseQuery(filter)
	if err != nil {
		return offences.Query{}, fault.Field("filter", "cannot be read")
	}
	s, err := format.FixedTimeRange(values.Get("since"), values.Get("until"), h.Now().UTC())
	if err != nil {
		return offences.Query{}, err
	}
	return offenderQuery(h.Site, &site.MonitorPage{Range: s, Query: site.Query(values)})
}
