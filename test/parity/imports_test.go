package parity

import (
	"net/url"
	"slices"
	"time"
)

const (
	noBadRows = "its dry run lists the rows, and offers to import the others"
	noFilter  = "REST and the commands block the patterns that they name; they have no filter"
)

func importEntries(o *operator) {
	importEntriesOf(o, "block", "198.19", "imp"+o.name)
	importEntriesOf(o, "exemption", "198.20", "exi"+o.name)
	matched := "match" + o.name + ":1"
	o.check(matched, 3)
	o.await(send("GET", "/v1/offenders?search="+matched), `"key"`)
	filter := url.Values{"search": {matched}, "since": {time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)}}
	o.change("block all that match a filter", change{
		page:  submit("/bulk/add", "what", "block", "all", "yes", "filter", filter.Encode(), "count", "1", "for", "24h", "reason", "scraping"),
		lacks: texts{byREST: noFilter, byCommand: noFilter},
	})
}

// importEntriesOf imports blocks or exemptions in a network, and all keys of a kind.
func importEntriesOf(o *operator, kind, network, keys string) {
	rest := func(rows plainText, more string) *request {
		return send("POST", "/v1/"+kind+"s/import?reason=a%20feed&expires_at="+in2099+more, rows)
	}
	// page sends both forms: the second confirms what the first found in the rows.
	page := func(rows plainText, more ...string) func(*operator) *answer {
		return func(o *operator) *answer {
			found := o.upload("/"+kind+"s/import", string(rows), "reason", "a feed", "for", "until", "until", "2099-01-01 00:00", "on_conflict", "keep")
			return o.submit("/"+kind+"s/import/confirm", append([]string{"file", found.hidden("file")}, more...)...)
		}
	}
	command := func(rows plainText, more ...string) *command {
		return run(slices.Concat([]string{kind, "import", o.file(string(rows)), "--format", "plain", "--reason", "a feed", "--until", in2099}, more)...)
	}
	try := func(name string, c change) { o.change(kind+": "+name, c) }
	rows := plainText(o.address(network, 1) + "\n" + o.address(network, 2) + "\n")
	try("import", change{
		rest: rest(rows, ""), page: page(rows), command: command(rows),
		result: "/v1/" + kind + "s?within=ip:" + o.address(network, 0) + "/30",
	})
	bad := plainText(o.address(network, 300) + "\n")
	try("import a bad row", change{
		want: fault{"invalid", ""},
		rest: rest(bad, ""), command: command(bad), lacks: texts{byPage: noBadRows},
	})
	broad := plainText(`"` + keys + `:*"` + "\n")
	try("import a broad row without a confirmation", change{
		want: fault{"confirmation_required", "confirm"},
		rest: rest(broad, ""), page: page(broad), command: command(broad),
		words: texts{byCommand: `it covers every key of the kind "` + keys + `"`, byPage: "To import also what is broad, type " + keys + ":*."},
	})
	confirm := o.setUp(rest(broad, "&dry_run=true")).member("confirm")
	try("import a broad row", change{
		rest: rest(broad, "&confirm="+confirm), page: page(broad, "confirm", keys+":*"), command: command(broad, "--yes"),
		result: "/v1/" + kind + "s?key=" + keys + ":1",
	})
}
