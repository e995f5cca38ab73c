package cli

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

const patternHelp = `A pattern is an exact key (token:abc), a prefix (token:test_*), an address or CIDR
(ip:203.0.113.0/24), ip:* or *. A bare IPv6 address means the network that its client is
counted by; write /128 for the one address.`

// entryCommand is the command of one kind of entries: block or exemption.
type entryCommand struct {
	*app
	noun, head  string // "block", "Block"
	article     string // "a block"
	arg         string // "BLOCK"
	path        string // of the API
	add         string // what adding one does, in a sentence
	none        string // says of a pattern that it has none
	example     string // a pattern
	forWhom     string // of the flag reason
	reason      string // in examples
	showsImpact bool   // before a broad one is confirmed
}

func newBlock(a *app) *cobra.Command {
	e := &entryCommand{app: a, noun: "block", head: "Block", article: "a block", arg: "BLOCK", path: wire.PathBlocks,
		add: "Block every key that a pattern selects, for a while or permanently.", none: "is not blocked",
		example: "ip:203.0.113.7", reason: "scraping", forWhom: "for the other operators and the client that is refused", showsImpact: true}
	c := e.command("Refuse keys until a block expires or is ended")
	c.AddCommand(newBlockPreview(a), newBlockImport(a), newBlockExport(a))
	return c
}

func newExemption(a *app) *cobra.Command {
	e := &entryCommand{app: a, noun: "exemption", head: "Exemption", article: "an exemption", arg: "EXEMPTION", path: wire.PathExemptions,
		add: "Exempt every key that a pattern selects: no rule and no block applies to it.", none: "is not exempt",
		example: "ip:198.51.100.7", reason: "\"our monitoring\"", forWhom: "for the other operators"}
	return e.command("Allow keys whatever rules and blocks say")
}

func (e *entryCommand) command(short string) *cobra.Command {
	c := &cobra.Command{
		Use:     e.noun,
		Short:   short,
		Example: "admin " + e.noun + " add " + e.example + " --reason " + e.reason + " --for 24h\nadmin " + e.noun + " list",
	}
	c.AddCommand(e.newAdd(), e.newList(), e.newShow(), e.newEdit(), e.newEnd(), e.newRestore())
	return c
}

func (e *entryCommand) entries() (client.Entries, *client.Client, error) {
	from, err := e.client()
	if err != nil {
		return client.Entries{}, nil, err
	}
	return from.Entries(e.path), from, nil
}

// impact shows what a block would do, before it is confirmed.
func (e *entryCommand) impact(ctx context.Context, from *client.Client) func(pattern string) error {
	return func(pattern string) error {
		if !e.showsImpact {
			return nil
		}
		return e.showImpact(ctx, from, pattern)
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
			"admin " + e.noun + " add 'token:test_*' --reason " + e.reason + " --until 2026-12-31T18:00:00Z\n" +
			"admin " + e.noun + " add " + e.example + " --reason " + e.reason + " --for 7d --on-conflict extend",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			entry.Pattern, entry.ExpiresIn, entry.ExpiresAt = args[0], end.in.Duration, end.at.Time
			entries, from, err := e.entries()
			if err != nil {
				return err
			}
			added, err := confirming(e.app, yes, e.impact(c.Context(), from), func(confirm string) (*wire.AddedEntry, error) {
				entry.Confirm = confirm
				return entries.Add(c.Context(), entry)
			})
			if err != nil {
				return err
			}
			e.warn(added.Warnings)
			p := e.printer()
			if p.Format == output.JSON {
				return p.JSON(added)
			}
			p.Sayf("%s %s.", e.head, output.Escape(added.Outcome))
			return output.One(p, added.Entry, entryDetail)
		},
	}
	c.Flags().StringVar(&entry.Reason, "reason", "", "why, "+e.forWhom)
	c.Flags().StringVar(&entry.OnConflict, "on-conflict", "", "where the pattern has "+e.article+" already: fail, extend or replace (default fail)")
	yesFlag(c, &yes)
	end.add(c, "it is active")
	mustHave(c, "reason")
	return c
}

func (e *entryCommand) newList() *cobra.Command {
	var f listFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List " + e.noun + "s",
		Example: "admin " + e.noun + " list\nadmin " + e.noun + " list --key " + e.example + " --state all\nadmin " +
			e.noun + " list --source manual --limit 0 -o csv > " + e.noun + "s.csv",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			entries, _, err := e.entries()
			if err != nil {
				return err
			}
			found, err := entries.List(c.Context(), f.query(), f.limit)
			if err != nil {
				return err
			}
			return printListing(e.app, found, entryColumns)
		},
	}
	f.add(c)
	return c
}

func (e *entryCommand) newShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show " + e.arg,
		Short:   "Show one " + e.noun,
		Long:    "Show one " + e.noun + ". " + e.arg + " is its id, or its pattern while it is active.",
		Example: "admin " + e.noun + " show " + e.example,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			entry, _, err := e.find(c, args[0])
			if err != nil {
				return err
			}
			return output.One(e.printer(), *entry, entryDetail)
		},
	}
}

func (e *entryCommand) newEdit() *cobra.Command {
	var change editFlags
	c := &cobra.Command{
		Use:     "edit " + e.arg,
		Short:   "Change the reason or the expiry of " + e.article,
		Long:    "Change the reason or the expiry of " + e.article + ".\n" + e.arg + " is its id, or its pattern while it is active.",
		Example: "admin " + e.noun + " edit " + e.example + " --for 7d\nadmin " + e.noun + " edit " + e.example + " --reason \"it came back\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			entry, from, err := e.find(c, args[0])
			if err != nil {
				return err
			}
			patch := change.patch(c, entry.Revision)
			entry, err = confirming(e.app, change.yes, e.impact(c.Context(), from), func(confirm string) (*wire.Entry, error) {
				patch.Confirm = confirm
				return from.Entries(e.path).Edit(c.Context(), entry.ID, patch)
			})
			if err != nil {
				return err
			}
			return output.One(e.printer(), *entry, entryDetail)
		},
	}
	change.add(c)
	return c
}

func (e *entryCommand) newEnd() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "end " + e.arg + "...",
		Short: "End " + e.noun + "s now",
		Long: "End " + e.noun + "s now. " + e.arg + " is an id, or a pattern that has an active " + e.noun + ".\n" +
			"'" + e.noun + " restore' makes one active again.",
		Example: "admin " + e.noun + " end " + e.example + " --reason \"wrong customer\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var ended []wire.Entry
			for _, arg := range args {
				entry, from, err := e.find(c, arg)
				if err == nil {
					entry, err = from.Entries(e.path).End(c.Context(), entry.ID, reason)
				}
				if err != nil {
					return partly(e.app, len(ended), len(args), "ended", err)
				}
				ended = append(ended, *entry)
			}
			if p := e.printer(); p.Format != output.Table {
				return output.List(p, ended, entryColumns)
			}
			for _, entry := range ended {
				e.printer().Sayf("Ended the %s of %s.", e.noun, output.Escape(entry.Pattern))
			}
			return nil
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return c
}

func (e *entryCommand) newRestore() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "restore " + e.arg,
		Short: "Make an ended " + e.noun + " active again, until its former expiry",
		Long: "Make an ended " + e.noun + " active again, until its former expiry.\n" + e.arg + " is its id, or its pattern for the one that was ended last.\n" +
			"A broad one is confirmed as when it is added.",
		Example: "admin " + e.noun + " restore " + e.example,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			entries, from, err := e.entries()
			if err != nil {
				return err
			}
			id, err := e.findEnded(c, entries, args[0])
			if err != nil {
				return err
			}
			entry, err := confirming(e.app, yes, e.impact(c.Context(), from), func(confirm string) (*wire.Entry, error) {
				return entries.Restore(c.Context(), id, confirm)
			})
			if err != nil {
				return err
			}
			return output.One(e.printer(), *entry, entryDetail)
		},
	}
	yesFlag(c, &yes)
	return c
}

// find finds an entry by its id, or an active one by its pattern.
func (e *entryCommand) find(c *cobra.Command, arg string) (*wire.Entry, *client.Client, error) {
	entries, from, err := e.entries()
	if err != nil {
		return nil, nil, err
	}
	if isID(arg) {
		entry, err := entries.Get(c.Context(), arg)
		return entry, from, err
	}
	pattern, err := canonicalPattern(arg)
	if err != nil {
		return nil, nil, err
	}
	found, err := entries.List(c.Context(), url.Values{"within": {arg}}, 0)
	if err != nil {
		return nil, nil, err
	}
	for i := range found.Items {
		if samePattern(found.Items[i].Pattern, pattern) {
			return &found.Items[i], from, nil
		}
	}
	return nil, nil, usagef("%q %s; see '%s list'", arg, e.none, e.noun)
}

// findEnded finds the id of an ended entry.
func (e *entryCommand) findEnded(c *cobra.Command, entries client.Entries, arg string) (string, error) {
	if isID(arg) {
		return arg, nil
	}
	pattern, err := canonicalPattern(arg)
	if err != nil {
		return "", err
	}
	found, err := entries.List(c.Context(), url.Values{"within": {arg}, "state": {"ended"}}, 0)
	if err != nil {
		return "", err
	}
	var last *wire.Entry
	for i := range found.Items {
		entry := &found.Items[i]
		if !entry.EndedAt.IsZero() && samePattern(entry.Pattern, pattern) && (last == nil || entry.EndedAt.After(last.EndedAt.Time)) {
			last = entry
		}
	}
	if last == nil {
		return "", usagef("no %s of %q was ended; see '%s list --state ended'", e.noun, arg, e.noun)
	}
	return last.ID, nil
}
