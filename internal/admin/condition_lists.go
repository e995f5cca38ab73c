package admin

import (
	"context"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// ConditionLists returns the lists of patterns that conditions of policies may contain.
func ConditionLists(context.Context, Caller, wire.None) (wire.Page[wire.ConditionList], error) {
	var page wire.Page[wire.ConditionList]
	for _, l := range conditions.Lists() {
		page.Items = append(page.Items, conditionList(l))
	}
	return page, nil
}

// FindConditionList returns the list with a name.
func FindConditionList(_ context.Context, _ Caller, in wire.ByName) (wire.ConditionList, error) {
	l := conditions.FindList(in.Name)
	if l == nil {
		return wire.ConditionList{}, fault.New(fault.NotFound, "There is no list %q.", in.Name)
	}
	return conditionList(l), nil
}

func conditionList(l *conditions.List) wire.ConditionList {
	return wire.ConditionList{
		Name: l.Name, Title: l.Title, Description: l.Description, Attribute: l.Attribute.String(), AsSent: l.IsSent,
		Source: l.Source, Date: l.Date, Patterns: l.Patterns,
	}
}
