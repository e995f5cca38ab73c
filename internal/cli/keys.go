package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newKey) }

func newKey(con *console.Console) *cobra.Command {
	return group(cobra.Command{
		Use:     "key",
		Short:   "Explain a key, set its plan or a limit of its own, reset its counts, erase it",
		Example: "admin key show ip:203.0.113.7\nadmin key set token:abc --plan gold\nadmin key limit token:abc 5/s --for 2d --reason launch\nadmin key reset token:abc",
	}, newKeyShow(con), newKeyActive(con), newKeyRequests(con), newKeySet(con), newKeyDelete(con), newKeyLimit(con), newKeyList(con), newKeyPlans(con), newKeyImport(con), newKeyExport(con),
		newKeyReset(con), newKeyErase(con), newKeyNote(con))
}

func newKeyShow(con *console.Console) *cobra.Command {
	var policy string
	var times bool
	c := &cobra.Command{
		Use:   "show KEY",
		Short: "Explain what applies to a key now and why",
		Long: `Explain what applies to a key now and why: the exemptions and blocks that cover it, the
policy and the pattern that chose it, what each rule has used and left, and when the next
request would be allowed. Nothing is counted.`,
		Example: "admin key show ip:203.0.113.7\nadmin key show ip:2001:db8::7 --times\nadmin key show token:abc --policy search -o json",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			found, err := client.Call(c.Context(), server, wire.ExplainKey, wire.KeyUnder{Key: args[0], Policy: policy})
			if err != nil {
				return err
			}
			return printExplanation(con.Printer(), &found, times)
		}),
	}
	c.Flags().StringVar(&policy, "policy", "", "explain under this policy; the most specific match if omitted")
	c.Flags().BoolVar(&times, "times", false, "list the time of every counted request")
	return c
}

func newKeyActive(con *console.Console) *cobra.Command {
	var span spanFlags
	var policy, pattern, search string
	var neverRefused bool
	var limit int
	c := &cobra.Command{
		Use:   "active",
		Short: "List the keys that were checked, also those that were never refused",
		Long: `List the keys that were checked in the last hour or another time range, most checks first,
and how their checks were answered. Of each minute, each node keeps all keys that were
refused and 1,024 others, those with the most checks. 'offenders' lists only refused keys.`,
		Example: "admin key active\nadmin key active --search 203.0.113. --last 7d\nadmin key active --never-refused --last 24h --limit 1\nadmin key active --policy login --limit 0 -o csv",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			in := wire.ActiveKeyList{Policy: policy, Pattern: pattern, Search: search, NeverRefused: neverRefused, TimeRange: span.timeRange()}
			return printListing(con, activeKeyColumns)(client.PagesOf[wire.ActiveKey](c.Context(), server, wire.ListActiveKeys, in, limit))
		}),
	}
	span.add(c)
	c.Flags().StringVar(&policy, "policy", "", "only checks under this policy")
	c.Flags().StringVar(&pattern, "pattern", "", "only keys that this pattern covers")
	c.Flags().StringVar(&search, "search", "", "only keys that contain this text")
	c.Flags().BoolVar(&neverRefused, "never-refused", false, "only keys that were never refused in the time range")
	limitFlag(c, &limit)
	return c
}

var activeKeyColumns = output.Columns[wire.ActiveKey]("key: Key (cut), checks: Checks, allowed: Allowed, limited: Limited, blocked: Blocked")

func newKeyRequests(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "requests KEY",
		Short: "List the last requests of a key and what each showed",
		Long: `List the last requests of a key, up to 50 of the last hour, the newest first: method, path,
agent, the decision, and the evidence that it showed. These are the requests that the
server which answers was asked about, and refusals that others recorded.`,
		Example: "admin key requests ip:203.0.113.7\nadmin key requests ip:203.0.113.7 -o csv",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			found, err := client.Call(c.Context(), server, wire.ListKeyRequests, wire.ByKey{Key: args[0]})
			if err != nil {
				return err
			}
			if found.Incomplete {
				con.Notef("the database did not answer: these are only the requests that the server keeps in memory")
			}
			if p := con.Printer(); p.Format == output.Table && len(found.Requests) == 0 {
				p.Sayf("No request of %s within the last hour is known.", output.Escape(found.Key))
				return nil
			}
			return output.List(con.Printer(), found.Requests, keyRequestColumns)
		}),
	}
}

var keyRequestColumns = output.Columns(`at: At, method: Method, path: Path (cut), decision: Decision, policy: Policy, by: By (drop 1),
	evidence: Evidence (drop 2), agent: Agent (cut drop 3), pass: Pass (drop 4)`, output.Cells[wire.KeyRequest]{
	"decision": func(q wire.KeyRequest) output.Cell {
		switch {
		case q.Reported != "":
			return output.Words("reported "+output.Escape(q.Reported), q.Decision)
		case q.Shadow != "":
			return output.Words(q.Decision+", shadow "+q.Shadow, q.Decision)
		}
		return output.Text(q.Decision)
	},
	"by":       func(q wire.KeyRequest) output.Cell { return output.Text(q.Rule + q.Block) },
	"evidence": func(q wire.KeyRequest) output.Cell { return output.Text(strings.Join(q.Evidence, "; ")) },
})

func newKeyReset(con *console.Console) *cobra.Command {
	var policy string
	c := &cobra.Command{
		Use:   "reset KEY",
		Short: "Reset the counts of a key",
		Long: `Reset the counts of a key, under all policies or one: all limits start from
zero. Blocks stay active; see 'block delete'.`,
		Example: "admin key reset ip:203.0.113.7\nadmin key reset token:abc --policy search",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			reset, err := client.Call(c.Context(), server, wire.ResetKey, wire.KeyUnder{Key: args[0], Policy: policy})
			if err != nil {
				return err
			}
			return printReset(con.Printer(), &reset, policy)
		}),
	}
	c.Flags().StringVar(&policy, "policy", "", "only under this policy")
	return c
}

func newKeyErase(con *console.Console) *cobra.Command {
	var preview, yes bool
	c := &cobra.Command{
		Use:   "erase KEY",
		Short: "Erase everything that is kept about a key",
		Long: `Erase everything that is kept about a key: its counts, offences, requests, notes, plan, labels
and limit. Texts that name it have a keyed hash in its place, and audit records that do are emptied.
It shows first what would be erased, and asks. Active blocks and exemptions, policies and backups
keep what they have.`,
		Example: "admin key erase ip:203.0.113.7 --preview\nadmin key erase token:abc --yes",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			found, err := client.Call(c.Context(), server, wire.EraseKey, wire.EraseKeyRequest{Key: args[0], Preview: true})
			if err != nil {
				return err
			}
			if preview {
				return printErasure(con.Printer(), &found)
			}
			if !yes {
				if err := printErasure(con.Printer(), &found); err != nil {
					return err
				}
				if err := con.Confirm("Erase all this? It cannot be restored.", "--yes"); err != nil {
					return err
				}
			}
			done, err := client.Call(c.Context(), server, wire.EraseKey, wire.EraseKeyRequest{Key: args[0], Confirm: found.Key})
			if err != nil {
				return err
			}
			return printErasure(con.Printer(), &done)
		}),
	}
	c.Flags().BoolVar(&preview, "preview", false, "show what would be erased, and erase nothing")
	c.Flags().BoolVar(&yes, "yes", false, "erase without asking")
	return c
}

var erasedColumns = output.Columns[wire.ErasedRows]("what: What, rows: Rows")

func printErasure(p *output.Printer, e *wire.KeyErasure) error {
	if p.Format == output.JSON {
		return p.JSON(e)
	}
	switch {
	case e.Preview:
		p.Sayf("This would be erased about %s, and its limits would start from zero:", output.Escape(e.Key))
	default:
		p.Sayf("Erased %s. The audit names it %s.", output.Escape(e.Key), e.Name)
	}
	if err := output.List(p, e.Erased, erasedColumns); err != nil {
		return err
	}
	for _, l := range e.Left {
		p.Sayf("%s", output.Escape(l))
	}
	return nil
}

var keyRuleColumns = output.Columns(`rule: Rule, used: Used, limit: Of, remaining: Left, retry_at: Next request,
	next_expiry_at: Oldest expires (drop 1)`, output.Cells[wire.KeyRule]{
	"retry_at": retryCell,
})

func retryCell(r wire.KeyRule) output.Cell {
	switch {
	case r.RetryAt.IsZero():
		return output.Words("never", "")
	case r.Remaining > 0:
		return output.Words("now", r.RetryAt.String())
	default:
		return output.Time(r.RetryAt.Time)
	}
}

var explanationColumns = output.Columns("key, decision, next_allowed_at, policy, blocks, exemptions, origin", output.Cells[*wire.KeyExplanation]{
	"policy": func(k *wire.KeyExplanation) output.Cell {
		if k.Policy == nil {
			return output.Cell{}
		}
		return output.Text(k.Policy.Name)
	},
	"blocks":     func(k *wire.KeyExplanation) output.Cell { return output.Number(len(k.Blocks)) },
	"exemptions": func(k *wire.KeyExplanation) output.Cell { return output.Number(len(k.Exemptions)) },
	"origin":     func(k *wire.KeyExplanation) output.Cell { return output.Text(originText(k.Origin)) },
})

func printExplanation(p *output.Printer, k *wire.KeyExplanation, times bool) error {
	if p.Format != output.Table {
		return output.One(p, k, explanationColumns)
	}
	p.Sayf("%s", output.Escape(k.Key))
	p.Sayf("%s", explanationSentence(k, p.Now))
	if o := k.Origin; o != nil {
		p.Sayf("From %s", output.Escape(originText(o)))
	}
	if k.Degraded {
		p.Sayf("Degraded: %s", output.Escape(k.DegradedReason))
	}
	if k.Crawler != "" {
		p.Sayf("Verified crawler of %s: its missing pages do not count.", output.Escape(k.Crawler))
	}
	if k.Plan != "" {
		p.Sayf("Plan %s", output.Escape(string(k.Plan)))
	}
	if l := k.OwnLimit; l != nil {
		p.Sayf("A limit of its own, %s, %s, in place of the rules of its policy: %s (%s)", output.Escape(strings.Join(l.Rules, " ")), limitEnds(l.ExpiresAt.Time, p.Now), output.Escape(l.Reason), output.Escape(l.Author))
	}
	for _, w := range k.Warnings {
		p.Sayf("Note: %s", output.Escape(w))
	}
	for _, e := range k.Exemptions {
		p.Sayf("Exempt by %s, %s: %s (%s)", output.Escape(e.Pattern), ends(e.ExpiresAt.Time, p.Now), output.Escape(e.Reason), output.Escape(e.Author))
	}
	for _, b := range k.Blocks {
		what := "Blocked"
		if b.Action == "challenge" {
			what = "Challenged"
		}
		if b.Scope != "" {
			what = "In the scope " + output.Escape(b.Scope) + " " + strings.ToLower(what)
		}
		p.Sayf("%s by %s, %s: %s (%s, block %s)", what, output.Escape(b.Pattern), ends(b.ExpiresAt.Time, p.Now), output.Escape(b.Reason), output.Escape(b.Author), output.Escape(b.ID))
	}
	policies, escalations := []*wire.KeyPolicy{k.Policy, k.Shadow}, []*wire.EscalationStatus{k.Escalation, k.ShadowEscalation}
	for i := range k.Conditional {
		policies, escalations = append(policies, &k.Conditional[i]), append(escalations, k.Conditional[i].Escalation)
	}
	said := map[string]bool{} // a policy may limit the key and also have it as a derived key; print its status once
	for _, e := range escalations {
		if e != nil && !said[e.Policy] {
			said[e.Policy] = true
			sayEscalation(p, e)
		}
	}
	for _, policy := range policies {
		if policy == nil {
			continue
		}
		if err := printKeyPolicy(p, policy, k.At.Time, times); err != nil {
			return err
		}
	}
	return nil
}

// originText describes the origin of a key.
func originText(o *wire.Origin) string {
	if o == nil {
		return ""
	}
	var parts []string
	if o.Country != "" {
		parts = append(parts, o.Country)
	}
	if o.ASN != 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("AS%d %s", o.ASN, o.Network)))
	}
	if o.Host != "" {
		parts = append(parts, o.Host)
	}
	return strings.Join(parts, ", ")
}

func explanationSentence(k *wire.KeyExplanation, now time.Time) string {
	switch k.Decision {
	case wire.Limited:
		if by := decidingPolicy(k); by != nil {
			of := "policy " + output.Escape(by.Name)
			switch {
			case by == k.Policy && k.OwnLimit != nil:
				of = "its own limit"
			case by.DerivedKey != "":
				of += " for the further key " + output.Escape(by.DerivedKey)
			}
			return fmt.Sprintf("Limited by %s of %s. %s", output.Escape(string(by.Rule)), of, nextRequest(k.NextAllowedAt.Time, now))
		}
		return "Limited. " + nextRequest(k.NextAllowedAt.Time, now)
	case wire.Blocked:
		return "Blocked. " + nextRequest(k.NextAllowedAt.Time, now)
	case wire.Unavailable:
		return "Unavailable: the log is unreachable, and the policy refuses then."
	default:
		if len(k.Exemptions) > 0 {
			return "Allowed: the key is exempt."
		}
		if k.Remaining != nil && *k.Remaining > 0 {
			return "Allowed: " + output.Amount(*k.Remaining, "request is", "requests are") + " allowed now."
		}
		return "Allowed: the next request is allowed now."
	}
}

// decidingPolicy returns the policy that limits the key according to the server, nil for none.
func decidingPolicy(k *wire.KeyExplanation) *wire.KeyPolicy {
	if k.Policy != nil && k.Policy.Decides {
		return k.Policy
	}
	if i := slices.IndexFunc(k.Conditional, func(p wire.KeyPolicy) bool { return p.Decides }); i >= 0 {
		return &k.Conditional[i]
	}
	return nil
}

// limitEnds describes when a key's own limit ends.
func limitEnds(at, now time.Time) string {
	if at.IsZero() {
		return "until it is ended"
	}
	return "until " + output.When(at, now)
}

func ends(at, now time.Time) string {
	if at.IsZero() {
		return "permanently"
	}
	return "until " + output.When(at, now)
}

func printKeyPolicy(p *output.Printer, k *wire.KeyPolicy, at time.Time, times bool) error {
	by := ""
	if k.Pattern != "" {
		by = ", chosen by the pattern " + output.Escape(string(k.Pattern))
	}
	how := ""
	if k.Algorithm != algorithms.TimestampLog {
		how = ", by " + output.Escape(strings.Join(append([]string{k.Algorithm}, k.Options.Texts()...), " "))
	}
	version := ""
	if k.Version > 0 {
		version = fmt.Sprintf(", version %d", k.Version)
	}
	p.Sayf("\nPolicy %s%s, mode %s%s%s", output.Escape(k.Name), version, output.Escape(k.Mode), how, by)
	if k.DerivedKey != "" {
		p.Sayf("Counts for %s, a further key of requests", output.Escape(k.DerivedKey))
	}
	texts := k.When.Texts()
	if delete(texts, "attack"); len(k.When.Attack) > 0 {
		p.Sayf("Applies only while an attack goes on.")
	}
	if when, err := conditions.Parse(texts); err == nil && (!when.IsZero() || k.Outcome != "") {
		p.Sayf("%s", output.Escape(when.DescribeApplies(k.Outcome, k.Scope)))
	}
	if len(k.Rules) > 0 {
		if err := output.List(p, k.Rules, keyRuleColumns); err != nil {
			return err
		}
	}
	if k.Points != "" {
		p.Sayf("%s", output.Escape(k.Points))
	}
	if len(k.Holds) > 0 {
		p.Sayf("Open holds: %s", output.Escape(fmt.Sprint(len(k.Holds))))
		for _, h := range k.Holds {
			p.Sayf("  %d  by %s, since %s, expires %s", h.Amount, output.Escape(cmp.Or(string(h.Source), "-")), h.TakenAt, h.ExpiresAt)
		}
	}
	if times {
		for _, charge := range k.Charges {
			p.Sayf("  %s  %d  %s", charge.At, charge.Points, output.Escape(charge.For))
		}
	}
	ahead, atLeast := reservationsAhead(k.Timestamps, at), ""
	if len(k.Timestamps) == wire.MaxTimestamps { // the server cuts the list
		atLeast = "At least "
	}
	if done := k.Timestamps[ahead:]; len(done) > 0 {
		one, many := "request counts", "requests count"
		if k.Outcome != "" {
			one, many = "report counts", "reports count"
		}
		if name := distinctOf(k.Rules); name != "" {
			one, many = "value of "+name+" counts", "different values of "+name+" count"
		}
		p.Sayf("%s%s, the newest of %s", atLeast, output.Amount(len(done), one, many), output.When(done[0].Time, p.Now))
	}
	if ahead > 0 {
		if len(k.Timestamps) > ahead {
			atLeast = ""
		}
		p.Sayf("%s%s ahead, the last at %s", atLeast, output.Amount(ahead, "reservation", "reservations"), output.When(k.Timestamps[0].Time, p.Now))
	}
	if times {
		for _, t := range k.Timestamps {
			p.Sayf("  %s", t)
		}
	}
	return nil
}

// reservationsAhead returns how many of the times, newest first, are reservations
// after at.
func reservationsAhead(times []wire.Time, at time.Time) int {
	n := 0
	for n < len(times) && times[n].After(at) {
		n++
	}
	return n
}

var resetColumns = output.Columns[wire.LogReset]("policy: Policy, existed: Had counts")

// printReset prints the reset of a key under a policy; "" means all policies.
func printReset(p *output.Printer, reset *wire.KeyReset, policy string) error {
	if p.Format == output.JSON {
		return p.JSON(reset)
	}
	limits := "All limits"
	if policy != "" {
		limits = "The limits of policy " + output.Escape(policy)
	}
	if slices.ContainsFunc(reset.Policies, func(r wire.LogReset) bool { return r.Existed }) {
		p.Sayf("Reset the counts of %s. %s start from zero.", output.Escape(reset.Key), limits)
	} else {
		p.Sayf("%s had no counts. %s start from zero, as before.", output.Escape(reset.Key), limits)
	}
	return output.List(p, reset.Policies, resetColumns)
}

func newKeyNote(con *console.Console) *cobra.Command {
	return group(cobra.Command{
		Use:     "note",
		Short:   "Keep notes about keys for other operators",
		Example: "admin key note list ip:203.0.113.7\nadmin key note add ip:203.0.113.7 \"Same client as in July.\"",
	}, newKeyNoteList(con), newKeyNoteAdd(con), newKeyNoteDelete(con))
}

func newKeyNoteList(con *console.Console) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:     "list KEY",
		Short:   "List the notes about a key, the newest first",
		Example: "admin key note list ip:203.0.113.7\nadmin key note list token:abc -o json",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return printListing(con, noteColumns)(client.Pages(c.Context(), server, wire.ListNotes, wire.NoteList{Key: args[0]}, limit))
		}),
	}
	limitFlag(c, &limit)
	return c
}

func newKeyNoteAdd(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "add KEY TEXT",
		Short:   "Write a note about a key",
		Example: "admin key note add ip:203.0.113.7 \"Same client as in July.\"",
		Args:    cobra.ExactArgs(2),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return printOne(con, noteColumns)(client.Call(c.Context(), server, wire.AddNote, wire.NoteRequest{Key: args[0], Text: args[1]}))
		}),
	}
}

func newKeyNoteDelete(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a note; the audit keeps its text",
		Example: "admin key note delete 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return note(con, "Deleted the note %s.", output.Escape(args[0]))(client.Call(c.Context(), server, wire.DeleteNote, wire.ByID{ID: args[0]}))
		}),
	}
}

var noteColumns = output.Columns[wire.Note]("created_at: Written, author: By, text: Note, key: Key (drop 1), id: Id")

// distinctOf returns the name of the value whose distinct values the rules count, "" if they
// count requests or reports.
func distinctOf(all []wire.KeyRule) string {
	if len(all) == 0 {
		return ""
	}
	_, name, _ := strings.Cut(all[0].Rule, " distinct ")
	return output.Escape(name)
}
