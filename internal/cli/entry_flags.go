package cli

import (
	"net/url"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// listFlags select blocks or exemptions.
type listFlags struct {
	state, source, author, search, key, within, order string
	literal, lists                                    bool
	limit                                             int
}

func (f *listFlags) add(c *cobra.Command) {
	f.addFilter(c)
	c.Flags().StringVar(&f.order, "order", "", "created (newest first) or expiry (ends soonest first)")
	limitFlag(c, &f.limit)
}

// addFilter adds the flags that filter, without those that order and limit.
func (f *listFlags) addFilter(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.state, "state", "", "active, ended or all (default active)")
	flags.StringVar(&f.source, "source", "", "only entries that this source holds, for example fail2ban/sshd, or of a kind: manual, automatic or imported")
	flags.StringVar(&f.author, "author", "", "only entries in which this operator has a part")
	flags.StringVar(&f.search, "search", "", "only entries whose pattern or reason contains this text")
	flags.StringVar(&f.key, "key", "", "only entries that cover this key")
	flags.StringVar(&f.within, "within", "", "only entries that this pattern covers, for example 203.0.113.0/24")
	literalFlag(c, &f.literal)
	c.Flags().BoolVar(&f.lists, "lists", false, "also rows of lists that are pulled, see 'block source'")
}

func (f *listFlags) query() url.Values {
	query := url.Values{}
	setIf(query, "state", f.state)
	setIf(query, "source", f.source)
	setIf(query, "author", f.author)
	setIf(query, "search", f.search)
	setIf(query, "key", f.key)
	setIf(query, "within", f.within)
	setIf(query, "order", f.order)
	if f.literal {
		query.Set("literal", "true")
	}
	if f.lists {
		query.Set("lists", "true")
	}
	return query
}

// editFlags change the reason or the end of a block or an exemption.
type editFlags struct {
	reason    string
	end       endFlags
	permanent bool
	yes       bool
}

func (f *editFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "the new reason")
	c.Flags().Var(&f.end.in, "for", "expires after this time from now, for example 24h or 7d")
	c.Flags().Var(&f.end.at, "until", "expires at this time, as YYYY-MM-DDThh:mm:ssZ")
	c.Flags().BoolVar(&f.permanent, "permanent", false, "never expires")
	yesFlag(c, &f.yes)
	c.MarkFlagsMutuallyExclusive("for", "until", "permanent")
	c.MarkFlagsOneRequired("reason", "for", "until", "permanent")
}

// patch returns the change. The server refuses it if the entry no longer has the revision.
func (f *editFlags) patch(c *cobra.Command, revision int64) wire.EntryPatch {
	patch := wire.EntryPatch{Revision: revision}
	given := c.Flags().Changed
	if given("reason") {
		patch.Reason = wire.To(f.reason)
	}
	switch {
	case given("for"):
		patch.ExpiresIn = wire.To(f.end.in.Duration)
	case given("until"):
		patch.ExpiresAt = wire.To(f.end.at.Time)
	case f.permanent:
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
func withinFilter(arg string, literal bool) (keys.Pattern, url.Values, error) {
	all, err := readPatterns(arg, literal)
	if err == nil && len(all) > 1 {
		err = console.Usagef("%q is several patterns; name one of %s", arg, keys.Join(all, 10))
	}
	if err != nil {
		return keys.Pattern{}, nil, err
	}
	filter := url.Values{"within": {arg}}
	if literal {
		filter.Set("literal", "true")
	}
	return all[0], filter, nil
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

// find finds an entry by its id, or an active one by its pattern.
func (e *entryCommand) find(c *cobra.Command, server *client.Client, arg string, literal bool) (*wire.Entry, error) {
	entries := e.entries(server)
	if isID(arg) {
		return entries.Get(c.Context(), arg)
	}
	pattern, filter, err := withinFilter(arg, literal)
	if err != nil {
		return nil, err
	}
	found, err := entries.List(c.Context(), filter, 0)
	if err != nil {
		return nil, err
	}
	var own *wire.Entry
	for i := range found.Items {
		entry := &found.Items[i]
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
	filter.Set("state", "ended")
	found, err := e.entries(server).List(c.Context(), filter, 0)
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
