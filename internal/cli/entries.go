package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(enforce, newBlock, newExemption) }

const patternHelp = `A pattern is an exact key (token:abc), a prefix (token:test_*), an address or CIDR
(ip:203.0.113.0/24), ip:* or *, or with --geoip-dir of the server the addresses of a network
(asn:64500) or country (country:NL). A bare IPv6 address means the network that its client is
counted by; write /128 for the one address.

Addresses and networks need no kind, and a range (10.0.0.1-10.0.0.9), AS64500, RU and a list of
these, separated by commas, are read as what they are. What looks like one of them and is none,
a key without a kind, and a kind that neither a policy nor a key of the last week has are
refused, unless --literal says that the pattern is meant exactly as written.`

// literalFlag adds the flag that takes patterns exactly as written.
func literalFlag(c *cobra.Command, literal *bool) {
	c.Flags().BoolVar(literal, "literal", false, "patterns that are neither addresses nor networks are meant exactly as written")
}

// entryCommand creates the commands of one kind of entries: blocks or exemptions.
type entryCommand struct {
	*console.Console
	noun, head  string // "block", "Block"
	article     string // "a block"
	arg         string // "BLOCK"
	ops         *wire.EntryOps
	add         string // the effect of adding one, in a sentence
	none        string // the message that a pattern has no entry
	example     string // a pattern
	readers     string // who reads the reason
	reason      string // in examples
	showsImpact bool   // show it before a broad one is confirmed
	omitted     string // how long one lasts if nothing is said; "" if that must be said
	importFrom  func(ctx context.Context, server *client.Client, in wire.EntryImport, onConflict string, file io.Reader, media string) (wire.ImportAnswer, error)
	export      func(ctx context.Context, server *client.Client, format string, f wire.EntryFilter) (io.ReadCloser, error)
}

func newBlock(con *console.Console) *cobra.Command {
	e := &entryCommand{Console: con, noun: "block", head: "Block", article: "a block", arg: "BLOCK",
		ops: wire.Blocks,
		add: "Block every key that a pattern covers, for a time or permanently.", none: "is not blocked",
		example: "ip:203.0.113.7", reason: "scraping", readers: "for the other operators and the client that is refused", showsImpact: true, omitted: wire.DefaultBlock,
		importFrom: func(ctx context.Context, server *client.Client, in wire.EntryImport, onConflict string, file io.Reader, media string) (wire.ImportAnswer, error) {
			return client.Upload(ctx, server, wire.ImportBlocks, wire.BlockImport{OnConflict: onConflict, EntryImport: in}, file, media)
		},
		export: func(ctx context.Context, server *client.Client, format string, f wire.EntryFilter) (io.ReadCloser, error) {
			return client.Open(ctx, server, wire.ExportBlocks, wire.BlockExport{Format: format, EntryFilter: f})
		}}
	c := e.command("Refuse keys until a block expires or is ended")
	c.AddCommand(newBlockPreview(con), newBlockSource(con), e.newImport(blockImport), e.newExport(blockExport))
	return c
}

func newExemption(con *console.Console) *cobra.Command {
	e := &entryCommand{Console: con, noun: "exemption", head: "Exemption", article: "an exemption", arg: "EXEMPTION",
		ops: wire.Exemptions,
		add: "Exempt every key that a pattern covers: no rule and no block applies to it.", none: "is not exempt",
		example: "ip:198.51.100.7", reason: "\"our monitoring\"", readers: "for the other operators",
		importFrom: func(ctx context.Context, server *client.Client, in wire.EntryImport, onConflict string, file io.Reader, media string) (wire.ImportAnswer, error) {
			return client.Upload(ctx, server, wire.ImportExemptions, wire.ExemptionImport{OnConflict: onConflict, EntryImport: in}, file, media)
		},
		export: func(ctx context.Context, server *client.Client, format string, f wire.EntryFilter) (io.ReadCloser, error) {
			return client.Open(ctx, server, wire.ExportExemptions, wire.ExemptionExport{Format: format, EntryFilter: f})
		}}
	c := e.command("Allow keys whatever rules and blocks say")
	c.AddCommand(e.newImport(exemptionImport), e.newExport(exemptionExport))
	return c
}

func (e *entryCommand) command(short string) *cobra.Command {
	return group(cobra.Command{
		Use:     e.noun,
		Short:   short,
		Example: "admin " + e.noun + " add " + e.example + " --reason " + e.reason + " --for 24h\nadmin " + e.noun + " list",
	}, e.newAdd(), e.newList(), e.newShow(), e.newEdit(), e.newEnd(), e.newRestore())
}

// chooseEnd applies the default of an entry's expiry, or refuses if there is none.
func (e *entryCommand) chooseEnd(end *endFlags) error {
	if e.omitted == "" {
		return end.requireChoice()
	}
	return end.useDefault(e.Console)
}

// impact returns the function that shows an entry's impact before it is confirmed.
func (e *entryCommand) impact(ctx context.Context, server *client.Client, literal bool) func(pattern string) error {
	return func(pattern string) error {
		if !e.showsImpact {
			return nil
		}
		return showImpact(ctx, e.Console, server, pattern, literal)
	}
}

func (e *entryCommand) newAdd() *cobra.Command {
	var entry wire.AddEntry
	var end endFlags
	var yes bool
	c := &cobra.Command{
		Use:   "add PATTERN",
		Short: "Add " + e.article,
		Long:  e.add + "\n\n" + patternHelp,
		Example: "admin " + e.noun + " add " + e.example + " --reason " + e.reason + " --for 24h\n" +
			"admin " + e.noun + " add 'token:test_*' --reason " + e.reason + " --for 30d\n" +
			"admin " + e.noun + " add " + e.example + " --reason " + e.reason + " --for 7d --on-conflict extend",
		Args: cobra.ExactArgs(1),
		RunE: online(e.Console, func(c *cobra.Command, server *client.Client, args []string) error {
			if err := e.chooseEnd(&end); err != nil {
				return err
			}
			entry.Pattern, entry.ExpiresIn, entry.ExpiresAt = args[0], end.in.Duration, end.at.Time
			added, err := confirmEntry(e.Console, yes, e.impact(c.Context(), server, entry.Literal), func(confirm string) (wire.AddedEntry, error) {
				entry.Confirm = confirm
				return client.Call(c.Context(), server, e.ops.Add, entry)
			})
			var problem *wire.Problem
			if errors.As(err, &problem) && problem.Code == "conflict" {
				return &advisedError{err, " Keep, extend or replace it by --on-conflict, or change it by '" + e.noun + " edit'"}
			}
			if err != nil {
				return err
			}
			all := []wire.Entry{added.Entry}
			e.Warn(added.Warnings)
			for _, other := range added.Others {
				e.Warn(other.Warnings)
				all = append(all, other.Entry)
			}
			p := e.Printer()
			if p.Format == output.JSON {
				return p.JSON(added)
			}
			p.Sayf("%s %s.", e.head, output.Escape(added.Outcome))
			for _, other := range added.Others {
				p.Sayf("%s %s.", e.head, output.Escape(other.Outcome))
			}
			if len(all) > 1 {
				return output.List(p, all, entryColumns)
			}
			return output.One(p, added.Entry, entryDetail)
		}),
	}
	c.Flags().StringVar(&entry.Source, "source", "", "the source that adds it, for example fail2ban/sshd: it joins an active "+e.noun+" of others, and ends its own part only")
	c.Flags().StringVar(&entry.Reason, "reason", "", "why, "+e.readers)
	c.Flags().StringVar(&entry.OnConflict, "on-conflict", "", "where the pattern has "+e.article+" already: fail, keep, extend or replace (default fail)")
	if e.showsImpact {
		textFlags(c, &entry.EntryTerms)
		c.Example += "\nadmin " + e.noun + " add " + e.example + " --reason " + e.reason + " --for 24h --scope login"
		c.Example += "\nadmin " + e.noun + " add " + e.example + " --reason " + e.reason + " --for 24h --action challenge"
	}
	yesFlag(c, &yes)
	literalFlag(c, &entry.Literal)
	end.addWithPermanent(c, "it is active", e.omitted)
	requireText(c, "reason")
	return c
}

func (e *entryCommand) newList() *cobra.Command {
	var in wire.EntryList
	c := &cobra.Command{
		Use:   "list",
		Short: "List " + e.noun + "s",
		Example: "admin " + e.noun + " list\nadmin " + e.noun + " list --key " + e.example + " --state all\nadmin " +
			e.noun + " list --source manual --limit 0 -o csv > " + e.noun + "s.csv",
		Args: cobra.NoArgs,
		RunE: online(e.Console, func(c *cobra.Command, server *client.Client, _ []string) error {
			return printListing(e.Console, entryColumns)(client.Pages(c.Context(), server, e.ops.List, in, in.Limit))
		}),
	}
	entryListFlags(c, &in)
	return c
}

func (e *entryCommand) newShow() *cobra.Command {
	var literal bool
	c := &cobra.Command{
		Use:     "show " + e.arg,
		Short:   "Show one " + e.noun,
		Long:    "Show one " + e.noun + ". " + e.arg + " is its id, or its pattern while it is active.",
		Example: "admin " + e.noun + " show " + e.example,
		Args:    cobra.ExactArgs(1),
		RunE: online(e.Console, func(c *cobra.Command, server *client.Client, args []string) error {
			entry, err := e.find(c, server, args[0], literal)
			if err != nil {
				return err
			}
			return output.One(e.Printer(), *entry, entryDetail)
		}),
	}
	literalFlag(c, &literal)
	return c
}

func (e *entryCommand) newEdit() *cobra.Command {
	var change editFlags
	var literal bool
	c := &cobra.Command{
		Use:     "edit " + e.arg,
		Short:   "Change the reason or the expiry of " + e.article,
		Long:    "Change the reason or the expiry of " + e.article + ".\n" + e.arg + " is its id, or its pattern while it is active.",
		Example: "admin " + e.noun + " edit " + e.example + " --for 7d\nadmin " + e.noun + " edit " + e.example + " --reason \"it came back\"",
		Args:    cobra.ExactArgs(1),
		RunE: online(e.Console, func(c *cobra.Command, server *client.Client, args []string) error {
			entry, err := e.find(c, server, args[0], literal)
			if err != nil {
				return err
			}
			patch := change.patch(c, entry.Revision)
			return printOne(e.Console, entryDetail)(confirmEntry(e.Console, change.yes, e.impact(c.Context(), server, true), func(confirm string) (wire.Entry, error) {
				patch.Confirm = confirm
				return client.Call(c.Context(), server, e.ops.Change, wire.EntryChange{ID: entry.ID, EntryPatch: patch})
			}))
		}),
	}
	change.add(c)
	literalFlag(c, &literal)
	return c
}

func (e *entryCommand) newEnd() *cobra.Command {
	var reason, source, policy string
	var literal, yes bool
	c := &cobra.Command{
		Use:   "delete " + e.arg + "...",
		Short: "Delete " + e.noun + "s: end them now",
		Long: "End " + e.noun + "s now. " + e.arg + " is an id, or a pattern that has an active " + e.noun + ";\na range or a list ends that of each of its networks.\n" +
			"'" + e.noun + " restore' makes one active again.\n\n" + `--source ends only what that source added, by the pattern that it added; the ` + e.noun + ` goes on while
another source holds it. It is no error if the source holds none.`,
		Example: "admin " + e.noun + " delete " + e.example + " --reason \"wrong customer\"\n" +
			"admin " + e.noun + " delete " + e.example + " --source fail2ban/sshd",
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) > 0) == (policy != "") {
				return errors.New("either entries or a policy are given")
			}
			return nil
		},
		RunE: online(e.Console, func(c *cobra.Command, server *client.Client, args []string) error {
			args, err := spreadPatterns(args, literal)
			if err != nil {
				return err
			}
			if policy != "" {
				of, err := blocksOf(c, server, policy)
				if err != nil {
					return err
				}
				for i := range of {
					args = append(args, of[i].ID)
				}
				if len(of) == 0 {
					e.Notef("The policy %s has no active automatic block.", output.Escape(policy))
				} else if !yes {
					if err := e.Confirm(fmt.Sprintf("This ends %s of the policy %s: whom they refuse is let in.", output.Amount(len(of), "automatic block", "automatic blocks"), output.Escape(policy)), "--yes"); err != nil {
						return err
					}
				}
			}
			var ended []wire.Entry
			for _, arg := range args {
				some, err := e.end(c, server, arg, literal, wire.EndRequest{Reason: reason, Source: source})
				ended = append(ended, some...)
				if err != nil {
					return partly(e.Console, len(ended), len(args), "ended", err)
				}
			}
			if p := e.Printer(); p.Format != output.Table {
				return output.List(p, ended, entryColumns)
			}
			for _, entry := range ended {
				e.Printer().Sayf("%s", endedSentence(e.noun, source, entry))
			}
			if slices.ContainsFunc(ended, func(entry wire.Entry) bool { return entry.Source == "automatic" }) {
				e.Notef("The requests before an automatic block still count: a limit that is full refuses further ones. 'key reset' starts the limits of a key from zero.")
			}
			return nil
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	c.Flags().StringVar(&source, "source", "", "end only the part of this source, for example fail2ban/sshd")
	if e.noun == "block" {
		c.Flags().StringVar(&policy, "policy", "", "in place of BLOCK: all automatic blocks of this policy")
		c.Flags().BoolVar(&yes, "yes", false, "with --policy: do not ask")
		c.Long += "\n--policy ends all automatic blocks of a policy, also of one that is deleted."
		c.Example += "\nadmin block delete --policy suspicion --reason \"a wrong limit\""
	}
	literalFlag(c, &literal)
	return c
}

// blocksOf returns the active automatic blocks of a policy. The reason alone names one that is deleted.
func blocksOf(c *cobra.Command, server *client.Client, policy string) ([]wire.Entry, error) {
	found, err := client.Pages(c.Context(), server, wire.Blocks.List, wire.EntryList{EntryFilter: wire.EntryFilter{Source: "automatic"}}, 0)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found.Items, func(b wire.Entry) bool {
		return string(b.Policy) != policy && (b.Policy != "" || !strings.Contains(b.Reason, " policy "+policy+":"))
	}), nil
}

// noteBlocks says which automatic blocks go on although their policy refuses nobody any more.
func noteBlocks(c *cobra.Command, con *console.Console, server *client.Client, policy string) error {
	of, err := blocksOf(c, server, policy)
	if err == nil && len(of) > 0 {
		con.Notef("Its automatic blocks go on until they end; active now: %s. To end them: %s block delete --policy %s", output.Amount(len(of), "block", "blocks"), con.Name, output.Escape(policy))
	}
	return err
}

// end ends the entry that an argument names or, of one source, its parts in every scope.
func (e *entryCommand) end(c *cobra.Command, server *client.Client, arg string, literal bool, end wire.EndRequest) ([]wire.Entry, error) {
	endOne := func(id string) (wire.Entry, error) {
		end.ID = id
		return client.Call(c.Context(), server, e.ops.End, wire.EntryEnd{EndRequest: end})
	}
	if end.Source == "" || isID(arg) {
		entry, err := e.find(c, server, arg, literal)
		if err != nil {
			return nil, err
		}
		ended, err := endOne(entry.ID)
		if err != nil {
			return nil, err
		}
		return []wire.Entry{ended}, nil
	}
	pattern, filter, err := withinFilter(arg, literal)
	if err != nil {
		return nil, err
	}
	filter.Source = end.Source
	found, err := e.list(c, server, filter)
	if err != nil {
		return nil, err
	}
	var ended []wire.Entry
	end.Pattern = arg
	for _, held := range found {
		if !samePattern(held.Pattern, pattern) {
			continue
		}
		entry, err := endOne(held.ID)
		if codeOf(err) == console.NotFound { // it holds the pattern by another address
			continue
		}
		if err != nil {
			return ended, err
		}
		ended = append(ended, entry)
	}
	if len(ended) == 0 {
		e.Notef("The source %s does not hold the %s of %s.", output.Escape(end.Source), e.noun, output.Escape(arg))
	}
	return ended, nil
}

// endedSentence says what was ended, and which sources held it or still do.
func endedSentence(noun, source string, entry wire.Entry) string {
	pattern, names := output.Escape(entry.Pattern), output.Escape(sourceNames(entry.Sources))
	switch {
	case entry.Active:
		return fmt.Sprintf("Ended the part of %s in the %s of %s, which goes on by %s.", output.Escape(source), noun, pattern, names)
	case len(entry.Sources) > 1:
		return fmt.Sprintf("Ended the %s of %s, for all its sources: %s.", noun, pattern, names)
	}
	return fmt.Sprintf("Ended the %s of %s.", noun, pattern)
}

// sourceNames returns the names of sources, each once.
func sourceNames(all []wire.EntrySource) string {
	var names []string
	for _, s := range all {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

func (e *entryCommand) newRestore() *cobra.Command {
	var yes, literal bool
	c := &cobra.Command{
		Use:   "restore " + e.arg,
		Short: "Make an ended " + e.noun + " active again, until its former expiry",
		Long: "Make an ended " + e.noun + " active again, until its former expiry.\n" + e.arg + " is its id, or its pattern for the one that was ended last.\n" +
			"A broad one is confirmed as when it is added.",
		Example: "admin " + e.noun + " restore " + e.example,
		Args:    cobra.ExactArgs(1),
		RunE: online(e.Console, func(c *cobra.Command, server *client.Client, args []string) error {
			id, err := e.findEnded(c, server, args[0], literal)
			if err != nil {
				return err
			}
			return printOne(e.Console, entryDetail)(confirmEntry(e.Console, yes, e.impact(c.Context(), server, true), func(confirm string) (wire.Entry, error) {
				return client.Call(c.Context(), server, e.ops.Restore, wire.EntryRestore{ID: id, RestoreRequest: wire.RestoreRequest{Confirm: confirm}})
			}))
		}),
	}
	yesFlag(c, &yes)
	literalFlag(c, &literal)
	return c
}

var entryColumns = append(output.Columns(`pattern: Pattern (cut), state: State (drop 3), expires_at: Expires (or permanent),
	reason: Reason (cut), author: By, source: Source (drop 4), created_at: Since (drop 2), sources: Held by (cut drop 6), id: Id (drop 1)`, output.Cells[wire.Entry]{
	"state":   entryState,
	"sources": func(e wire.Entry) output.Cell { return output.Text(sourceNames(e.Sources)) },
}), termColumns()...)

// termColumns returns a column for each of the terms. The last is left out first where not all fit.
func termColumns() (columns []output.Column[wire.Entry]) {
	for name := range new(wire.EntryTerms).Texts() {
		i, head := len(columns), strings.ToUpper(name[:1])+strings.ReplaceAll(name[1:], "_", " ")
		columns = append(columns, output.Column[wire.Entry]{Name: name, Head: head, Drop: 5 + 2*i, Cell: func(e wire.Entry) output.Cell {
			return output.Text(reflect.ValueOf(e.EntryTerms).Field(i).String())
		}})
	}
	return columns
}

var entryDetail = append(detailColumns(),
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

// detailColumns returns the columns of a list with all that is known of the sources.
func detailColumns() []output.Column[wire.Entry] {
	columns := slices.Clone(entryColumns)
	for i := range columns {
		if columns[i].Name == "sources" {
			columns[i].Cell = func(e wire.Entry) output.Cell { return output.Text(sourcesText(e.Sources)) }
		}
	}
	return columns
}

// sourcesText names the sources of an entry with what they asked for and until when.
func sourcesText(all []wire.EntrySource) string {
	var texts []string
	for _, s := range all {
		text := s.Name
		if s.Pattern != "" {
			text += " (" + s.Pattern + ")"
		}
		if s.ExpiresAt.IsZero() {
			text += " permanently"
		} else {
			text += " until " + s.ExpiresAt.String()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

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
