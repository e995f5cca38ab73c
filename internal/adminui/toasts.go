package adminui

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/phrase"
)

// toastTexts are the messages of monitoring pages after a change, by the parameter done.
var toastTexts = map[string]struct {
	text, plural string // plural is "" if no entries are named
	undo         string // the action that undoes it, "" for none
	exempt       bool
}{
	"blocked":          {"Blocked", "Blocked", "/bulk/end", false},
	"exempted":         {"Exempted", "Exempted", "/bulk/end", true},
	"unblocked":        {"Ended the block of", "Ended the blocks of", "/bulk/restore", false},
	"unexempted":       {"Ended the exemption of", "Ended the exemptions of", "/bulk/restore", true},
	"restored":         {"Restored the block of", "Restored the blocks of", "", false},
	"restored-exempt":  {"Restored the exemption of", "Restored the exemptions of", "", true},
	"reset":            {"Counts reset. All limits start from zero.", "", "", false},
	"erased":           {"Erased. What names the key in texts and in the audit is a keyed hash now.", "", "", false},
	"reset-policy":     {"Counts reset under one policy. Its limits start from zero.", "", "", false},
	"noted":            {"The note is saved.", "", "", false},
	"profiled":         {"Saved.", "", "/audit/undo", false},
	"unprofiled":       {"The plan, the labels and the note are removed.", "", "/audit/undo", false},
	"ownlimit":         {"The key has a limit of its own now.", "", "/audit/undo", false},
	"ownlimitended":    {"The limit is ended: the rules of its policy limit the key again.", "", "/audit/undo", false},
	"undone":           {"Undone.", "", "", false},
	"notedeleted":      {"The note is deleted.", "", "", false},
	"resumed":          {"Automatic blocks are resumed.", "", "", false},
	"renewed":          {"Each of them was blocked already; such blocks are extended or replaced.", "", "", false},
	"renewed-exempt":   {"Each of them was exempt already; such exemptions are extended or replaced.", "", "", false},
	"unchanged":        {"Nothing was changed: each of them has a block of its own.", "", "", false},
	"unchanged-exempt": {"Nothing was changed: each of them has an exemption of its own.", "", "", false},
	"rangeblocked":     {"Accepted. A block of the range was there before and lasts at least as long; it goes on until then.", "", "", false},
	"dismissed":        {"Dismissed. The range is not proposed again for a day.", "", "", false},
}

// toastTime is how long after a change its toast is shown, so that a copied address does not
// show it later.
const toastTime = time.Minute

// toasts finds the toast of a monitoring page.
type toasts struct {
	entries *admin.Entries
	audit   *operations.Audit
	canUndo bool // changes can be undone
	now     func() time.Time
}

// find returns the toast for the page's address, nil for none, and removes its parameters from
// the address.
func (t *toasts) find(ctx context.Context, w *site.MonitorPage) (*site.Toast, error) {
	done := w.Query.Get("done")
	text, known := toastTexts[done]
	ids := strings.FieldsFunc(w.Query.Get("ids"), func(r rune) bool { return r == ',' })
	delete(w.Query, "done")
	delete(w.Query, "ids")
	if done == "allblocked" && len(ids) == 1 {
		w.Here = w.With()
		return t.ofImport(ctx, ids[0])
	}
	if done == "extended" && len(ids) == 1 {
		return t.ofExtension(ctx, w, ids[0])
	}
	if !known || len(ids) > site.RowsPerPage {
		return nil, nil
	}
	w.Here = w.With()
	if text.plural == "" {
		toast := &site.Toast{Text: text.text}
		if text.undo != "" {
			var err error
			toast.Undo, toast.Fields, err = t.undoChange(ctx, &w.Frame, "profile", w.Query.Get("key"), profileChanges[done])
			toast.Fields = append(toast.Fields, site.HiddenFields("back", w.Here)...)
			return toast, err
		}
		return toast, nil
	}
	if len(ids) == 0 {
		return nil, nil
	}
	s, what := blockTexts, "block"
	if text.exempt {
		s, what = exemptionTexts, "exempt"
	}
	first, err := t.entries.ByID(ctx, s.Kind, ids[0])
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	changed := first.Created.Time()
	if !first.Ended().IsZero() {
		changed = first.Ended()
	}
	isRestored := text.undo == "" // no time of that is kept
	if isRestored && !first.ActiveAt(t.now()) || !isRestored && t.now().Sub(changed) > toastTime {
		return nil, nil
	}
	toast := &site.Toast{Text: text.text, Key: first.Pattern.String(), Undo: text.undo}
	switch text.undo {
	case "/bulk/end":
		toast.Undo, toast.Fields, err = t.endAdded(ctx, &w.Frame, text.undo, first, ids)
	case "/bulk/restore":
		toast.Fields = site.HiddenIDs(ids)
	}
	toast.Fields = append(site.HiddenFields("back", w.Here, "what", what), toast.Fields...)
	if len(ids) > 1 {
		toast.Text, toast.Key = text.plural+" "+phrase.Count(len(ids), "key")+".", ""
	}
	return toast, err
}

// profileChanges are the actions of the changes of a profile that a toast can undo, by the key
// of the toast in toastTexts.
var profileChanges = map[string]string{"profiled": "set", "unprofiled": "delete", "ownlimit": "limit", "ownlimitended": "end_limit"}

// undoChange returns the action, with its fields, that undoes the latest change of an object. It
// returns "" unless the toast is about that change: it must be of the given action, recent, and
// made by the user who sees the page.
func (t *toasts) undoChange(ctx context.Context, page *site.Frame, object, id, action string) (string, []site.Field, error) {
	if !t.canUndo {
		return "", nil, nil
	}
	return site.UndoOf(ctx, t.audit.Find, page, object, id, object+"."+action)
}

// endAdded returns the action, with its fields, that ends the entries that were added in one
// change. It returns "" if the first of them has been changed since.
func (t *toasts) endAdded(ctx context.Context, page *site.Frame, action string, first *blocks.Entry, ids []string) (string, []site.Field, error) {
	if undo, _, err := t.undoChange(ctx, page, string(first.Kind), first.ID, "add"); err != nil || undo == "" {
		return "", nil, err
	}
	return action, append(site.HiddenFields("revision", strconv.FormatInt(first.Revision, 10)), site.HiddenIDs(ids)...), nil
}

// ofExtension returns the toast of an existing block that was extended. Its undo restores the
// former expiry.
func (t *toasts) ofExtension(ctx context.Context, w *site.MonitorPage, id string) (*site.Toast, error) {
	w.Here = w.With()
	block, err := t.entries.ByID(ctx, blocks.Block, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	toast := &site.Toast{Text: "Extended the block of", Key: block.Pattern.String()}
	toast.Undo, toast.Fields, err = t.undoChange(ctx, &w.Frame, "block", id, "extend")
	toast.Fields = append(toast.Fields, site.HiddenFields("back", w.Here)...)
	return toast, err
}

// ofImport returns the toast of an audit record of an import.
func (t *toasts) ofImport(ctx context.Context, id string) (*site.Toast, error) {
	recordID, err := strconv.ParseInt(id, 10, 64)
	if err != nil { // the address was edited
		return nil, nil //nolint:nilerr // there is no such record
	}
	record, err := t.audit.ByID(ctx, recordID)
	if fault.Is(err, fault.NotFound) || err == nil && (record.Action != "block.import" || t.now().Sub(record.At) > toastTime) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	toast := &site.Toast{Text: "Blocked all that matched. " + record.Summary}
	if t.canUndo && !isFinalImport(record) {
		toast.Undo, toast.Fields = "/audit/undo", site.HiddenFields("id", id)
	}
	return toast, nil
}
