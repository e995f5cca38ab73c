package adminui

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// mostAll is how many keys may be blocked at once because they match filters.
const mostAll = 5000

// maxListed is how many keys a question names; it counts the others.
const maxListed = 100

// Filter returns the filters of the report and its span, with both ends fixed,
// so that a question about all keys that match means the same ones later.
func (p *offendersPageData) Filter() string {
	values := url.Values{}
	for name, all := range p.Query {
		values[name] = all
	}
	for _, own := range []string{"cursor", "at", "done", "ids", "sort", "columns"} {
		values.Del(own)
	}
	values.Set("since", p.Span.From.Format(time.RFC3339))
	values.Set("until", p.Span.To.Format(time.RFC3339))
	return values.Encode()
}

// MayAll reports whether more keys match than are shown, and few enough to be
// blocked at once.
func (p *offendersPageData) MayAll() bool {
	return p.Report.Keys > int64(len(p.Rows)) && p.Report.Keys <= mostAll
}

// blockAll blocks all keys that match the filters of a form, in one
// transaction: all or none. A key that has a block of its own keeps it. The
// form is answered with the question until it says for how long, and again
// where more keys match than the question named.
func (u *UI) blockAll(c *httpserver.Call, page *manyPage, values url.Values) error {
	page.Filter = values.Get("filter")
	ctx := c.Context()
	patterns, err := u.allMatching(ctx, page.Filter)
	if err != nil {
		return err
	}
	page.All = len(patterns)
	for _, p := range patterns[:min(len(patterns), maxListed)] {
		page.Keys = append(page.Keys, p.String())
	}
	if page.For == "" {
		page.For = "24h"
		return u.askMany(c, http.StatusOK, page, patterns)
	}
	if asked := values.Get("count"); asked != strconv.Itoa(page.All) {
		page.Mistakes["count"] = "Nothing was changed: " + format.Plural(page.All, "key") + " match by now. Look at them once more."
		return u.askMany(c, statusOfForm, page, patterns)
	}
	ends, err := u.endOf(page.For, page.Until, u.Now())
	if err != nil {
		if err = page.Mistakes.Add(err); err != nil {
			return err
		}
	}
	if len(page.Mistakes) > 0 {
		return u.askMany(c, statusOfForm, page, patterns)
	}
	actor := c.Actor()
	made, err := u.Entries.Import(ctx, actor, blocksOf(patterns, blocks.Entry{Kind: blocks.Block,
		Reason: page.Reason, Author: actor.Name, Source: blocks.Manual, Expires: ends,
	}), blocks.Fail, nil)
	if err != nil {
		return err
	}
	if made.Created == 0 {
		return u.back(c, page.Back, "known", nil)
	}
	entry, err := u.newestImport(ctx, actor)
	if err != nil {
		return err
	}
	return u.back(c, page.Back, "allblocked", []string{entry})
}

// allMatching returns what selects each of the keys that match a filter.
func (u *UI) allMatching(ctx context.Context, filter string) ([]keys.Pattern, error) {
	q, err := u.filterQuery(filter)
	if err != nil {
		return nil, err
	}
	q.Sort, q.Limit = offences.ByKey, 1000
	var all []keys.Pattern
	for {
		ranking, err := u.Offenders.Store.Rank(ctx, q)
		if err != nil {
			return nil, err
		}
		if ranking.Keys > mostAll {
			return nil, fault.New(fault.Invalid, "Nothing was changed: %s keys match, and at most %s are blocked at once. Narrow the filters.", format.Number(ranking.Keys), format.Number(mostAll))
		}
		for _, row := range ranking.Rows {
			p, err := u.Catalog.Parser().Pattern(patternText(row.Key))
			if err != nil || blocklist.Broad(p) != "" {
				continue // a key of settings that have changed since
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

// filterQuery reads what offendersPageData.Filter wrote.
func (u *UI) filterQuery(filter string) (offences.Query, error) {
	if u.Offenders == nil {
		return offences.Query{}, errNotCounted
	}
	values, err := url.ParseQuery(filter)
	if err != nil {
		return offences.Query{}, fault.Field("filter", "cannot be read")
	}
	s, err := format.FixedTimeRange(values.Get("since"), values.Get("until"), u.Now().UTC())
	if err != nil {
		return offences.Query{}, err
	}
	return u.offenderQuery(&watch{Span: s, Query: query(values)})
}

// blocksOf makes blocks that differ in nothing but what they select.
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

// newestImport returns the id of the entry that an import has just left, "" for
// none.
func (u *UI) newestImport(ctx context.Context, by audit.Actor) (string, error) {
	found, err := u.Audit.FindRecords(ctx, audit.Filter{Action: "block.import", Actor: by.Name, Limit: 1})
	if err != nil || len(found.Records) == 0 {
		return "", err
	}
	return strconv.FormatInt(found.Records[0].ID, 10), nil
}

// allToast tells how many keys an entry of the audit says were blocked, and
// offers to undo it as the audit does.
func (u *UI) allToast(ctx context.Context, id string) (*Toast, error) {
	made, err := strconv.ParseInt(id, 10, 64)
	if err != nil { // no entry of ours was made
		return nil, nil //nolint:nilerr // a made-up id in the URL is no mistake to tell
	}
	e, err := u.Audit.FindRecordByID(ctx, made)
	if fault.Is(err, fault.NotFound) || err == nil && (e.Action != "block.import" || u.Now().Sub(e.At) > toastTime) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &Toast{Text: "Blocked all that matched. " + e.Summary}
	if u.Undo != nil {
		t.Undo, t.Fields = "/audit/undo", []Field{{"id", id}}
	}
	return t, nil
}
