package cli

import (
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

var entryColumns = []output.Column[wire.Entry]{
	{Name: "pattern", Head: "Pattern", Cut: true, Cell: func(e wire.Entry) output.Cell { return output.Text(e.Pattern) }},
	{Name: "state", Head: "State", Drop: 3, Cell: entryState},
	{Name: "expires_at", Head: "Expires", Cell: func(e wire.Entry) output.Cell { return output.TimeOr(e.ExpiresAt.Time, "permanent") }},
	{Name: "reason", Head: "Reason", Cut: true, Cell: func(e wire.Entry) output.Cell { return output.Text(e.Reason) }},
	{Name: "author", Head: "By", Cell: func(e wire.Entry) output.Cell { return output.Text(e.Author) }},
	{Name: "source", Head: "Source", Drop: 4, Cell: func(e wire.Entry) output.Cell { return output.Text(e.Source) }},
	{Name: "created_at", Head: "Since", Drop: 2, Cell: func(e wire.Entry) output.Cell { return output.Time(e.CreatedAt.Time) }},
	{Name: "id", Head: "Id", Drop: 1, Cell: func(e wire.Entry) output.Cell { return output.Text(e.ID) }},
}

var entryDetail = append(append([]output.Column[wire.Entry]{}, entryColumns...),
	output.Column[wire.Entry]{Name: "kind", Head: "Kind", Cell: func(e wire.Entry) output.Cell { return output.Text(e.Kind) }},
	output.Column[wire.Entry]{Name: "policy", Head: "Policy", Cell: func(e wire.Entry) output.Cell { return output.Text(string(e.Policy)) }},
	output.Column[wire.Entry]{Name: "level", Head: "Level", Cell: func(e wire.Entry) output.Cell {
		if e.Level == nil {
			return output.Cell{}
		}
		return output.Number(*e.Level)
	}},
	output.Column[wire.Entry]{Name: "ended_at", Head: "Ended", Cell: func(e wire.Entry) output.Cell { return output.Time(e.EndedAt.Time) }},
	output.Column[wire.Entry]{Name: "ended_by", Head: "Ended by", Cell: func(e wire.Entry) output.Cell { return output.Text(string(e.EndedBy)) }},
)

func entryState(e wire.Entry) output.Cell {
	switch {
	case e.Active:
		return output.Words("active", "active")
	case !e.EndedAt.IsZero():
		return output.Words("ended", "ended")
	default:
		return output.Words("expired", "expired")
	}
}
