package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"net/netip"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// Confirmation is what must be confirmed before a file is imported.
type Confirmation struct {
	// Digest identifies these rows and findings. An import with this digest is confirmed.
	Digest string
	// Count is the number of findings; Findings are the first of them.
	Count    int
	Findings []Finding
}

// Finding is one reason why a file needs a confirmation.
type Finding struct {
	Line int // of the first affected row
	Rows int // number of affected rows
	// Pattern is that of a row, or the sum of the networks of several rows; zero if the sum is
	// not one network.
	Pattern keys.Pattern
	Reason  string // a clause
	// Impact is the predicted effect of an entry of Pattern, nil if Pattern is zero.
	Impact *Impact
}

// NeedsConfirmation is the error for a file that is not confirmed. It unwraps to a *fault.Error
// of the code NeedConfirm.
type NeedsConfirmation struct {
	*Confirmation
	fault *fault.Error
}

// Error returns why the import needs a confirmation.
func (e *NeedsConfirmation) Error() string { return e.fault.Error() }

// Unwrap returns the *fault.Error that front ends translate.
func (e *NeedsConfirmation) Unwrap() error { return e.fault }

func needsConfirmation(c *Confirmation) *NeedsConfirmation {
	first := c.Findings[0]
	about := fmt.Sprintf("line %d", first.Line)
	if !first.Pattern.IsZero() {
		about = fmt.Sprintf("%q in line %d", first.Pattern, first.Line)
	}
	if first.Rows > 1 {
		about = fmt.Sprintf("%d rows from line %d on", first.Rows, first.Line)
		if !first.Pattern.IsZero() {
			about += fmt.Sprintf(", together %q", first.Pattern)
		}
	}
	broad := "broad:"
	if c.Count > 1 {
		broad = fmt.Sprintf("broad in %d ways, the first being", c.Count)
	}
	e := fault.New(fault.NeedConfirm, "Nothing was imported: the file is %s %s: %s. Where that is meant, import it again confirmed (confirm, --yes on the command line).",
		broad, about, first.Reason)
	e.Field = "confirm"
	e.Detail = map[string]any{"confirm": c.Digest}
	return &NeedsConfirmation{c, e}
}

// judge finds what must be confirmed in a file, in single rows and in all rows together.
type judge struct {
	entries *Entries
	kind    blocks.Kind
	address netip.Addr // of the caller
	rows    hash.Hash  // of all patterns and their scopes

	broad      []Finding // the first rows that are broad by themselves
	broadCount int
	own        Finding // the rows that would refuse the caller
	v4, v6     union
	origins    uint64 // number of IPv4 addresses of the patterns of origins that are not broad
	originRows int
	originLine int
	// several are the patterns of blocks of more than one client that are not broad by
	// themselves, nil if the traffic is unknown.
	several     *keys.Index[struct{}]
	severalLine int
	severalRows int
}

func newJudge(e *Entries, kind blocks.Kind, address netip.Addr) *judge {
	j := &judge{entries: e, kind: kind, address: address, rows: sha256.New()}
	if kind != blocks.Block { // what confirms a file of blocks does not confirm it for exemptions
		_, _ = io.WriteString(j.rows, string(kind)+"\n")
	}
	if e.Traffic != nil && kind == blocks.Block { // exemptions refuse nobody
		j.several = keys.NewIndex[struct{}]()
	}
	return j
}

func (j *judge) add(row blocklist.Row) {
	p := row.Pattern
	_, _ = io.WriteString(j.rows, p.String())          // a hash never fails
	_, _ = io.WriteString(j.rows, "\n"+row.Scope+"\n") // none of them contains a line feed
	reason := BroadReason(p)
	if reason != "" {
		j.broadCount++
		if len(j.broad) < MaxShown {
			j.broad = append(j.broad, Finding{Line: row.Line, Rows: 1, Pattern: p, Reason: reason})
		}
	} else if j.kind == blocks.Block && j.entries.blocksCaller(j.address, p) {
		if j.own.Rows == 0 {
			j.own = Finding{Line: row.Line, Pattern: p, Reason: "it refuses your own address, " + j.address.String()}
		}
		j.own.Rows++
	}
	if network, is := p.Network(); is {
		if network.Addr().Is4() {
			j.v4.add(network, row.Line)
		} else {
			j.v6.add(network, row.Line)
		}
	}
	if extent, known := keys.ExtentOf(p); known && reason == "" {
		j.origins += extent.Addresses
		if j.originRows++; j.originRows == 1 {
			j.originLine = row.Line
		}
	}
	if reason == "" && j.several != nil && !isSingle(p) {
		j.several.Set(p, struct{}{})
		if j.severalRows++; j.severalRows == 1 {
			j.severalLine = row.Line
		}
	}
}

// confirmation returns what must be confirmed, nil if nothing.
func (j *judge) confirmation(ctx context.Context) (*Confirmation, error) {
	var all []Finding
	all = append(all, j.together(&j.v4, "IPv4", broadSum4)...)
	all = append(all, j.together(&j.v6, "IPv6", broadSum6)...)
	if j.origins > 1<<(32-broadSum4) {
		all = append(all, Finding{Line: j.originLine, Rows: j.originRows, Reason: fmt.Sprintf("together they cover %d IPv4 addresses, more than a /%d", j.origins, broadSum4)})
	}
	all = append(all, j.traffic(ctx)...)
	if j.own.Rows > 0 {
		all = append(all, j.own)
	}
	c := &Confirmation{Count: len(all) + j.broadCount}
	if c.Count == 0 {
		return nil, nil
	}
	all = append(all, j.broad...)
	for _, f := range all {
		// Not the reason: estimates change from one moment to the next.
		fmt.Fprintf(j.rows, "%d %d %s\n", f.Line, f.Rows, f.Pattern)
	}
	c.Digest = hex.EncodeToString(j.rows.Sum(nil)[:16])
	c.Findings = all[:min(len(all), MaxShown)]
	for n := range c.Findings {
		f := &c.Findings[n]
		if f.Pattern.IsZero() {
			continue
		}
		var err error
		if f.Impact, err = j.entries.impact(ctx, Caller{Address: j.address}, j.kind, f.Pattern); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// together finds the broad networks that several rows form together, and whether the remaining
// rows select too much in sum.
func (j *judge) together(u *union, family string, sum int) []Finding {
	u.merge()
	var found []Finding
	rest := Finding{}
	total := 0.0
	for _, part := range u.parts {
		p := keys.NetworkPattern(part.network)
		reason := BroadReason(p)
		switch {
		case reason == "":
			total += addressRatio(part.network)
			if rest.Rows += part.rows; rest.Line == 0 || part.line < rest.Line {
				rest.Line = part.line
			}
		case part.joined:
			found = append(found, Finding{Line: part.line, Rows: part.rows, Pattern: p, Reason: "together " + reason})
		}
	}
	if total > math.Ldexp(1, -sum) {
		rest.Reason = fmt.Sprintf("together they cover %.1f%% of all %s addresses, more than a /%d", max(total*100, 0.1), family, sum)
		found = append(found, rest)
	}
	return found
}

// traffic finds whether the patterns of more than one client would have refused much of the
// traffic that is now allowed.
func (j *judge) traffic(ctx context.Context) []Finding {
	if j.severalRows == 0 {
		return nil
	}
	now, active := j.entries.Now(), j.entries.View.Blocks()
	t, err := j.entries.Traffic.EstimateTraffic(ctx, now.Add(-day), now, func(k keys.Key) bool {
		_, _, found := j.several.Best(k)
		m := active.Match(k, now)
		return found && m.Block == nil && m.Exemption == nil
	})
	if err != nil {
		// If the ratio is unknown because the database fails, it must still be possible to
		// block an attacker.
		return nil
	}
	reason := trafficReason(t)
	if reason == "" {
		return nil
	}
	f := Finding{Line: j.severalLine, Rows: j.severalRows, Reason: "together they " + reason}
	if f.Rows == 1 {
		f.Reason = "it " + reason
		for p := range j.several.All() {
			f.Pattern = p
		}
	}
	return []Finding{f}
}
