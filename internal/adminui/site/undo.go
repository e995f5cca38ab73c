package site

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/audit"
)

// toastTime is how long after a change its toast can undo it.
const toastTime = time.Minute

// UndoOf returns the action, with its fields, that undoes the latest change of an object, "" if it is
// not one of the actions, not the user's own, or older than a minute. find reads audit records.
func UndoOf(ctx context.Context, find func(context.Context, audit.Filter) (audit.Page, error), page *Frame, object, id string, actions ...string) (string, []Field, error) {
	if page.Principal == nil {
		return "", nil, nil
	}
	found, err := find(ctx, audit.Filter{Object: object, ObjectID: id, Limit: 1})
	if err != nil || len(found.Records) == 0 {
		return "", nil, err
	}
	latest := found.Records[0]
	isOwn := latest.Actor.Kind == page.Principal.Kind && latest.Actor.ID == page.Principal.ID
	if !isOwn || !slices.Contains(actions, latest.Action) || page.Now.Sub(latest.At) > toastTime {
		return "", nil, nil
	}
	return "/audit/undo", HiddenFields("id", strconv.FormatInt(latest.ID, 10)), nil
}
