package adminui

import (
	"slices"
	"strings"
)

// reportColumn is one of the columns of the report that may be left out. The
// key and its offences always stand.
type reportColumn struct {
	Name, Label string
	Shown       bool
}

// reportColumns are those that the menu offers, and which are shown where an
// address names none.
var reportColumns = []reportColumn{
	{"allowed", "Allowed", true}, {"refused", "Refused", true}, {"rule", "By rule", true}, {"policy", "Policy", false},
	{"first", "First", true}, {"last", "Last", true}, {"trend", "Trend", true}, {"state", "Status", true},
}

// noColumns stands in an address for none of them.
const noColumns = "none"

// columnsOf returns the columns with those shown that an address names, as
// chosenColumns wrote it; what it does not know it leaves out.
func columnsOf(text string) []reportColumn {
	all := slices.Clone(reportColumns)
	if text == "" {
		return all
	}
	named := strings.Split(text, ",")
	for i := range all {
		all[i].Shown = slices.Contains(named, all[i].Name)
	}
	return all
}

// chosenColumns writes the columns that a form has chosen as one parameter, ""
// where they are the usual ones.
func chosenColumns(chosen [][]byte) string {
	var names []string
	usual := true
	for _, c := range reportColumns {
		is := slices.ContainsFunc(chosen, func(name []byte) bool { return string(name) == c.Name })
		if is {
			names = append(names, c.Name)
		}
		usual = usual && is == c.Shown
	}
	switch {
	case usual:
		return ""
	case len(names) == 0:
		return noColumns
	}
	return strings.Join(names, ",")
}

// Shows reports whether a column is shown.
func (p *offendersPageData) Shows(name string) bool {
	return slices.ContainsFunc(p.Columns, func(c reportColumn) bool { return c.Name == name && c.Shown })
}
