package adminui

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// maxMatching bounds the keys that are blocked at once because they match filters.
const maxMatching = 5000

// maxListed bounds the keys that the page lists; it counts the others.
const maxListed = 100

// Filter returns the filters of the report and its time range with both ends
// fixed, so that the form selects the same keys when it is sent later.
func (p *offendersPageData) Filter() string {
	values := url.Values{}
	for name, all := range p.Query {
		values[name] = all
	}
	for _, own := range []string{"cursor", "at", "done", "ids", "sort", "columns"} {
		values.Del(own)
	}
	values.Set("since", p.Range.From.Format(time.RFC3339))
	values.Set("until", p.Range.To.Format(time.RFC3339))
	return values.Encode()
}

// CanBlockAll reports whether more keys match than are listed, and no more than
// can be blocked at once.
func (p *offendersPageData) CanBlockAll() bool {
	return p.Report.Keys > int64(len(p.Rows)) && p.Report.Keys <= maxMatching
}

// blockMatching blocks all keys that match the filters of a form, in one
// transaction: all or none. A key with a block of its own keeps it. A form
// without a duration is answered with the page that asks for it, and so is one
// whose count of keys is outdated.
func (h *bulkHandler) blockMatching(c *httpserver.Call, page *bulkPage, values url.Values) error {
	page.Filter = values.Get("filter")
	ctx := c.Context()
	patterns, err := h.allMatching(ctx, page.Filter)
	if err != nil {
		return err
	}
	page.All = len(patterns)
	for _, p := range patterns[:min(len(patterns), maxListed)] {
		page.Keys = append(page.Keys, p.String())
	}
	if page.For == "" {
		page.For = "24h"
		return h.askBulk(c, http.StatusOK, page, patterns)
	}
	if asked := values.Get("count"); asked != strconv.Itoa(page.All) {
		page.FieldErrors["count"] = "Nothing was changed: " + format.Plural(page.All, "key") + " match by now. Look at them once more."
		return h.askBulk(c, site.StatusInvalidForm, page, patterns)
	}
	ends, err := h.ParseExpiry(page.For, page.Until, h.Now())
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	if len(page.FieldErrors) > 0 {
		return h.askBulk(c, site.StatusInvalidForm, page, patterns)
	}
	actor := c.Actor()
	made, err := h.entries.Import(ctx, actor, blocksOf(patterns, blocks.Entry{Kind: blocks.Block,
		Reason: page.Reason, Author: actor.Name, Source: blocks.Manual, Expires: ends,
	}), blocks.Fail, nil)
	if err != nil {
		return err
	}
	if made.Created == 0 {
		return h.ReturnTo(c, page.Back, "unchanged", nil)
	}
	record, err := h.newestImport(ctx, actor)
	if err != nil {
		return err
	}
	return h.ReturnTo(c, page.Back, "allblocked", []string{record})
}

// allMatching returns the pattern of each key that matches a filter.
func (h *bulkHandler) allMatching(ctx context.Context, filter string) ([]keys.Pattern, error) {
	q, err := h.filterQuery(filter)
	if err != nil {
		return nil, err
	}
	q.Sort, q.Limit = offences.ByKey, 1000
	var all []keys.Pattern
	for {
		ranking, err := h.offenders.Store.Rank(ctx, q)
		if err != nil {
			return nil, err
		}
		if ranking.Keys > maxMatching {
			return nil, fault.New(fault.Invalid, "Nothing was changed: %s keys match, and at most %s are blocked at once. Narrow the filters.", format.Number(ranking.Keys), format.Number(maxMatching))
		}
		for _, row := range ranking.Rows {
			p, err := h.Catalog.Parser().Pattern(site.PatternText(row.Key))
			if err != nil || blocklist.Broad(p) != "" {
				continue // the key was recorded under other settings
			}
			all = append(all, p)
		}
		if q.Cursor = ranking.Next; q.Cursor == "" {
			break
		}
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Invalid, "Nothing was changed: no key matches these filters.")
	}
	return all, nil
}

// filterQuery parses the result of offendersPageData.Filter.
func (h *bulkHandler) filterQuery(filter string) (offences.Query, error) {
	if h.offenders == nil {
		return offences.Query{}, errNotCounted
	}
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

// blocksOf returns copies of like, one for each pattern.
func blocksOf(patterns []keys.Pattern, like blocks.Entry) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for _, p := range patterns {
			like.Pattern = p
			if !yield(like, nil) {
				return
			}
		}
	}
}

// newestImport returns the id of the caller's newest audit record of an import, ""
// for none.
func (h *bulkHandler) newestImport(ctx context.Context, by audit.Actor) (string, error) {
	found, err := h.audit.FindRecords(ctx, audit.Filter{Action: "block.import", Actor: by.Name, Limit: 1})
	if err != nil || len(found.Records) == 0 {
		return "", err
	}
	return strconv.FormatInt(found.Records[0].ID, 10), nil
}
