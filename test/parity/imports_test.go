package parity

const noBadRows = "its dry run lists the rows, and offers to import the others"

// imported are the two forms of an import of blocks on a page.
func imported(list string, more ...string) []form { return importedAt("/blocks/import", list, more) }

// importedExemptions is imported for exemptions.
func importedExemptions(list string, more ...string) []form {
	return importedAt("/exemptions/import", list, more)
}

func importedAt(path, list string, more []string) []form {
	return []form{
		{path: path, upload: list, fields: []string{"reason", "a feed", "for", "until", "until", "2099-01-01 00:00", "on_conflict", "keep"}},
		{path: path + "/confirm", fields: append([]string{"file", "{field:file}"}, more...)},
	}
}

const (
	importQuery    = "/v1/blocks/import" + importOptions
	exemptionQuery = "/v1/exemptions/import" + importOptions
	importOptions  = "?reason=a%20feed&expires_at=2099-01-01T00:00:00Z"
)

func importCommand(list string, more ...string) command { return importCommandOf("block", list, more) }

func exemptionCommand(list string, more ...string) command {
	return importCommandOf("exemption", list, more)
}

func importCommandOf(noun, list string, more []string) command {
	return command{args: append([]string{noun, "import", "{file:" + list + "}", "--format", "plain", "--reason", "a feed", "--until", "2099-01-01T00:00:00Z"}, more...)}
}

var bulkChanges = []change{
	{
		name: "import", rest: request{"POST", importQuery, "198.19.$O.1\n198.19.$O.2\n"}, pages: imported("198.19.$O.1\n198.19.$O.2\n"),
		cli: importCommand("198.19.$O.1\n198.19.$O.2\n"), result: "/v1/blocks?within=ip:198.19.$O.0/30",
	},
	{
		name: "import a bad row", want: fault{"invalid", ""}, rest: request{"POST", importQuery, "198.19.$O.300\n"}, cli: importCommand("198.19.$O.300\n"),
		lacks: map[string]string{pages: noBadRows},
	},
	{
		name: "import a broad row without a confirmation", want: fault{"confirmation_required", "confirm"}, rest: request{"POST", importQuery, "\"imp$N:*\"\n"},
		cli: importCommand("\"imp$N:*\"\n"), pages: imported("\"imp$N:*\"\n"),
		words: map[string]string{cmd: `it covers every key of the kind "imp$N"`, pages: "To import also what is broad, type imp$N:*."},
	},
	{
		name:  "import a broad row",
		setup: []step{{request: request{"POST", importQuery + "&dry_run=true", "\"imp$N:*\"\n"}, keep: "confirm=confirm"}},
		rest:  request{"POST", importQuery + "&confirm={confirm}", "\"imp$N:*\"\n"}, pages: imported("\"imp$N:*\"\n", "confirm", "imp$N:*"),
		cli: importCommand("\"imp$N:*\"\n", "--yes"), result: "/v1/blocks?key=imp$N:1",
	},
	{
		name: "import exemptions", rest: request{"POST", exemptionQuery, "198.20.$O.1\n198.20.$O.2\n"}, pages: importedExemptions("198.20.$O.1\n198.20.$O.2\n"),
		cli: exemptionCommand("198.20.$O.1\n198.20.$O.2\n"), result: "/v1/exemptions?within=ip:198.20.$O.0/30",
	},
	{
		name: "import a bad row of exemptions", want: fault{"invalid", ""}, rest: request{"POST", exemptionQuery, "198.20.$O.300\n"}, cli: exemptionCommand("198.20.$O.300\n"),
		lacks: map[string]string{pages: noBadRows},
	},
	{
		name: "import a broad exemption without a confirmation", want: fault{"confirmation_required", "confirm"}, rest: request{"POST", exemptionQuery, "\"exi$N:*\"\n"},
		cli: exemptionCommand("\"exi$N:*\"\n"), pages: importedExemptions("\"exi$N:*\"\n"),
		words: map[string]string{cmd: `it covers every key of the kind "exi$N"`, pages: "To import also what is broad, type exi$N:*."},
	},
	{
		name:  "import a broad exemption",
		setup: []step{{request: request{"POST", exemptionQuery + "&dry_run=true", "\"exi$N:*\"\n"}, keep: "confirm=confirm"}},
		rest:  request{"POST", exemptionQuery + "&confirm={confirm}", "\"exi$N:*\"\n"}, pages: importedExemptions("\"exi$N:*\"\n", "confirm", "exi$N:*"),
		cli: exemptionCommand("\"exi$N:*\"\n", "--yes"), result: "/v1/exemptions?key=exi$N:1",
	},
	{
		name: "block all that match a filter", setup: append(checks("match$N:1", 3), step{request: request{"GET", "/v1/offenders?search=match$N:1", ""}, keep: "key=items.0.key"}),
		pages: []form{{path: "/bulk/add", fields: []string{"what", "block", "all", "yes", "filter", "search=match$N:1&since={from}", "count", "1", "for", "24h", "reason", "scraping"}}},
		lacks: map[string]string{rest: noFilter, cmd: noFilter},
	},
}
