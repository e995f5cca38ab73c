package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// listFlags select blocks or exemptions.
type listFlags struct {
	state, source, author, search, key, within, order string
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
	flags.StringVar(&f.source, "source", "", "only entries of this source: manual, automatic or imported")
	flags.StringVar(&f.author, "author", "", "only entries by this operator")
	flags.StringVar(&f.search, "search", "", "only entries whose pattern or reason contains this text")
	flags.StringVar(&f.key, "key", "", "only entries that match this key")
	flags.StringVar(&f.within, "within", "", "only entries that this pattern covers, as ip:203.0.113.0/24")
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
	return query
}

func setIf(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// printListing prints a listing and notes how many rows were left out.
func printListing[T any](a *app, found client.Listing[T], columns []output.Column[T]) error {
	p := a.printer()
	if len(found.Items) == 0 && p.Format == output.Table {
		a.notef("None.")
		return nil
	}
	if err := output.List(p, found.Items, columns); err != nil {
		return err
	}
	switch {
	case found.More && found.Total >= 0:
		a.notef("Showing %d of %d; --limit 0 shows all.", len(found.Items), found.Total)
	case found.More:
		a.notef("Showing the first %d; --limit 0 shows all.", len(found.Items))
	}
	return nil
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
	c.Flags().Var(&f.end.at, "until", "expires at this time, for example 2026-12-31T18:00:00Z")
	c.Flags().BoolVar(&f.permanent, "permanent", false, "never expires")
	yesFlag(c, &f.yes)
	c.MarkFlagsMutuallyExclusive("for", "until", "permanent")
	c.MarkFlagsOneRequired("reason", "for", "until", "permanent")
}

// patch returns the change; the server refuses it if the revision has changed
// since.
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

// canonicalPattern parses a pattern as the server does.
func canonicalPattern(text string) (keys.Pattern, error) {
	pattern, err := keys.Parser{}.Pattern(text)
	if err != nil {
		return pattern, usagef("%w", err)
	}
	return pattern, nil
}

// samePattern reports whether the server's spelling of a pattern is the requested
// one. A bare IPv6 address means a network whose length only the server knows, so
// any network that contains it counts as the same.
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

// confirming runs a change that the server may want confirmed because its pattern is
// broad: it shows the impact and asks on a terminal, unless --yes was given.
func confirming[T any](a *app, yes bool, showImpact func(pattern string) error, do func(confirm string) (T, error)) (T, error) {
	return confirmingBy(a, "--yes", yes, showImpact, do)
}

// confirmPolicy is confirming for policies, whose flag is --confirm-broad.
func confirmPolicy[T any](a *app, yes bool, do func(confirm string) (T, error)) (T, error) {
	return confirmingBy(a, "--confirm-broad", yes, func(string) error { return nil }, do)
}

func confirmingBy[T any](a *app, flag string, yes bool, showImpact func(pattern string) error, do func(confirm string) (T, error)) (T, error) {
	done, err := do("")
	var problem *wire.Problem
	if !errors.As(err, &problem) || problem.Code != "confirmation_required" {
		return done, err
	}
	var confirm, why string
	if json.Unmarshal(problem.More["confirm"], &confirm) != nil || json.Unmarshal(problem.More["confirm_reason"], &why) != nil {
		return done, err
	}
	if !yes {
		if err := showImpact(confirm); err != nil {
			return done, err
		}
		if err := a.confirm(output.Escape(confirm+" is broad: "+why+"."), flag); err != nil {
			return done, err
		}
	}
	return do(confirm)
}

// yesFlag adds the flag that answers confirming with yes.
func yesFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVar(yes, "yes", false, "apply it without asking, also where the pattern is broad")
}

// broadFlag adds the flag that answers confirmPolicy with yes.
func broadFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVar(yes, "confirm-broad", false, "apply it without asking, also where it newly refuses every request of a broad pattern")
}

// partly notes how many of several items were done before err.
func partly(a *app, done, total int, what string, err error) error {
	if done > 0 {
		a.notef("%d of %d were %s before the error.", done, total, what)
	}
	var problem *wire.Problem
	if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
		return fmt.Errorf("no such id: %w", err)
	}
	return err
}
