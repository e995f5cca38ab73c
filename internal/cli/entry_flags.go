package cli

import (
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// entryListFlags adds the flags that select, order and limit blocks or exemptions.
func entryListFlags(c *cobra.Command, in *wire.EntryList) {
	entryFilterFlags(c, &in.EntryFilter)
	c.Flags().StringVar(&in.Order, "order", "", "created (newest first) or expiry (ends soonest first)")
	limitFlag(c, &in.Limit)
}

// entryFilterFlags adds the flags that select blocks or exemptions.
func entryFilterFlags(c *cobra.Command, f *wire.EntryFilter) {
	flags := c.Flags()
	flags.StringVar(&f.State, "state", "", "active, ended or all (default active)")
	flags.StringVar(&f.Source, "source", "", "only entries that this source holds, for example fail2ban/sshd, or of a kind: manual, automatic or imported")
	flags.StringVar(&f.Author, "author", "", "only entries in which this operator has a part")
	flags.StringVar(&f.Search, "search", "", "only entries whose pattern or reason contains this text")
	flags.StringVar(&f.Key, "key", "", "only entries that cover this key")
	flags.StringVar(&f.Within, "within", "", "only entries that this pattern covers, for example 203.0.113.0/24")
	literalFlag(c, &f.Literal)
	flags.BoolVar(&f.Lists, "lists", false, "also rows of lists that are pulled, see 'block source'")
}

// editFlags change the texts or the end of a block or an exemption.
type editFlags struct {
	texts wire.EntryPatch
	end   endFlags
	yes   bool
}

func (f *editFlags) add(c *cobra.Command) {
	texts := textFlags(c, &f.texts)
	c.Flags().Var(&f.end.in, "for", "expires after this time from now, for example 24h or 7d")
	c.Flags().Var(&f.end.at, "until", "expires at this time, as YYYY-MM-DDThh:mm:ssZ")
	c.Flags().BoolVar(&f.end.permanent, "permanent", false, "never expires")
	yesFlag(c, &f.yes)
	c.MarkFlagsMutuallyExclusive("for", "until", "permanent")
	c.MarkFlagsOneRequired(append(texts, "for", "until", "permanent")...)
}

// patch returns the change. The server refuses it if the entry no longer has the revision.
func (f *editFlags) patch(c *cobra.Command, revision int64) wire.EntryPatch {
	patch := f.texts
	patch.Revision = revision
	switch given := c.Flags().Changed; {
	case given("for"):
		patch.ExpiresIn = wire.To(f.end.in.Duration)
	case given("until"):
		patch.ExpiresAt = wire.To(f.end.at.Time)
	case f.end.permanent:
		patch.ExpiresAt = wire.To(wire.Time{})
	}
	return patch
}

// isID reports whether an argument is an id rather than a pattern.
func isID(arg string) bool { return uuid.Validate(arg) == nil && len(arg) == 36 }

// readPatterns reads the patterns of existing entries as the server does.
func readPatterns(text string, literal bool) ([]keys.Pattern, error) {
	all, err := keys.Reading{AnyKind: true, Literal: literal}.Patterns(text)
	if err != nil {
		return nil, console.Usagef("%w", err)
	}
	return all, nil
}

// spreadPatterns replaces each argument that is a range or a list by its patterns.
func spreadPatterns(args []string, literal bool) (spread []string, _ error) {
	for _, arg := range args {
		if isID(arg) {
			spread = append(spread, arg)
			continue
		}
		all, err := readPatterns(arg, literal)
		if err != nil {
			return nil, err
		}
		if len(all) == 1 { // as it was written: only the server knows how a bare IPv6 address is counted
			spread = append(spread, arg)
			continue
		}
		for _, p := range all {
			spread = append(spread, p.String())
		}
	}
	return spread, nil
}

// withinFilter returns the one pattern of an argument, and the filter of the entries within it.
func withinFilter(arg string, literal bool) (p keys.Pattern, filter wire.EntryFilter, err error) {
	all, err := readPatterns(arg, literal)
	if err == nil && len(all) > 1 {
		err = console.Usagef("%q is several patterns; name one of %s", arg, keys.Join(all, 10))
	}
	if err != nil {
		return p, filter, err
	}
	return all[0], wire.EntryFilter{Within: arg, Literal: literal}, nil
}

// samePattern reports whether the server's text of a pattern is the requested one. A bare IPv6
// address means a network whose length only the server knows, so any network that contains the
// address counts as the same.
func samePattern(spelled string, asked keys.Pattern) bool {
	if spelled == asked.String() {
		return true
	}
	network, isNetwork := asked.Network()
	if !asked.Widened() || !isNetwork {
		return false
	}
	other, err := keys.Parser{}.Pattern(spelled)
	if err != nil {
		return false
	}
	found, ok := other.Network()
	return ok && found.Contains(network.Addr())
}

// list returns all entries that a filter selects.
func (e *entryCommand) list(c *cobra.Command, server *client.Client, f wire.EntryFilter) ([]wire.Entry, error) {
	found, err := client.Pages(c.Context(), server, e.ops.List, wire.EntryList{EntryFilter: f}, 0)
	return found.Items, err
}

// find finds an entry by its id, or an active one by its pattern.
func (e *entryCommand) find(c *cobra.Command, server *client.Client, arg string, literal bool) (*wire.Entry, error) {
	if isID(arg) {
		entry, err := client.Call(c.Context(), server, e.ops.Get, wire.ByID{ID: arg})
		return &entry, err
	}
	pattern, filter, err := withinFilter(arg, literal)
	if err != nil {
		return nil, err
	}
	found, err := e.list(c, server, filter)
	if err != nil {
		return nil, err
	}
	var own *wire.Entry
	for i := range found {
		entry := &found[i]
		if !samePattern(entry.Pattern, pattern) {
			continue
		}
		if own != nil {
			return nil, console.Usagef("%q has several %ss, of different scopes; name one by its id, which '%s list' shows", arg, e.noun, e.noun)
		}
		own = entry
	}
	if own != nil {
		return own, nil
	}
	return nil, console.NotFoundf("%q %s; see '%s list'", arg, e.none, e.noun)
}

// findEnded finds the id of an ended entry, of a pattern the one that ended last.
func (e *entryCommand) findEnded(c *cobra.Command, server *client.Client, arg string, literal bool) (string, error) {
	if isID(arg) {
		return arg, nil
	}
	pattern, filter, err := withinFilter(arg, literal)
	if err != nil {
		return "", err
	}
	filter.State = "ended"
	found, err := e.list(c, server, filter)
	if err != nil {
		return "", err
	}
	var last *wire.Entry
	for i := range found {
		entry := &found[i]
		if !entry.EndedAt.IsZero() && samePattern(entry.Pattern, pattern) && (last == nil || entry.EndedAt.After(last.EndedAt.Time)) {
			last = entry
		}
	}
	if last == nil {
		return "", console.NotFoundf("no %s of %q was ended; see '%s list --state ended'", e.noun, arg, e.noun)
	}
	return last.ID, nil
}

// partly prints how many items were changed before err, and returns err.
func partly(con *console.Console, done, total int, what string, err error) error {
	if done > 0 {
		con.Notef("%d of %d were %s before the error.", done, total, what)
	}
	return err
}
