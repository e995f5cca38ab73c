package accesslog

import (
	"fmt"
	"strings"
)

// Columns say which field of a log each part of a request is read from, "" for none.
type Columns struct {
	Time, Client, Method, Path, Status, Agent, Host, Account string
}

// readPart is a part of a request and the field that it is read from.
type readPart struct {
	what string
	from *string
}

func (c *Columns) all() []readPart {
	return []readPart{
		{"time", &c.Time}, {"client", &c.Client}, {"method", &c.Method}, {"path", &c.Path}, {"status", &c.Status},
		{"agent", &c.Agent}, {"host", &c.Host}, {"account", &c.Account},
	}
}

// String says which columns were found, and which not, in one line that is safe to print.
func (c Columns) String() string {
	var found, missing []string
	for _, part := range c.all() {
		switch from := *part.from; {
		case from == "":
			missing = append(missing, part.what)
		case strings.HasPrefix(from, "the "), from == "["+part.what+"]", from == part.what:
			found = append(found, part.what+" ("+clip(from)+")")
		default:
			found = append(found, fmt.Sprintf("%s (%q)", part.what, clip(from)))
		}
	}
	text := strings.Join(found, ", ")
	if len(missing) > 0 {
		text += "; no " + strings.Join(missing, ", no ")
	}
	return text
}

// Has reports whether a log with these columns has a part of a request; true for anything that is not one
// of a log's.
func (c Columns) Has(what string) bool {
	for _, part := range c.all() {
		if part.what == what {
			return *part.from != ""
		}
	}
	return true
}

// Missing says which policies of a server see nothing of a log with these columns, "" if none do.
func (c Columns) Missing() string {
	var kinds []string
	for _, part := range c.all() {
		switch {
		case *part.from != "":
		case part.what == "status":
			kinds = append(kinds, "an outcome")
		case part.what == "path", part.what == "method", part.what == "agent", part.what == "host":
			kinds = append(kinds, "a condition on the "+part.what)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return "policies with " + strings.Join(kinds, ", or with ") + " have nothing to look at in this log"
}

// headLines is how many lines at the beginning are looked at for the fields of a log.
const headLines = 200
