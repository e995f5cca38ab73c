package local

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/firewall"
	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// firewallFlags are the flags of 'firewall nftables'.
type firewallFlags struct {
	layout       firewall.Layout
	table        string
	drop         bool
	never        []string
	geoipDir     string
	compareEvery time.Duration
	dryRun       bool
	remove       bool
	removeOnExit bool
	metrics      string
}

// NewFirewall returns the command that enforces blocks in the kernel of this machine.
func NewFirewall(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "firewall",
		Short:   "Refuse the packets of blocked addresses",
		Example: "admin firewall nftables --never 198.51.100.0/24",
	}
	c.AddCommand(newNftables(con))
	return c
}

func newNftables(con *console.Console) *cobra.Command {
	var f firewallFlags
	c := &cobra.Command{
		Use:   "nftables",
		Short: "Keep sets of nftables equal to the active blocks, until Ctrl-C",
		Long: `Keep the sets stint_ipv4 and stint_ipv6 of nftables equal to the active blocks of addresses
and networks, without what is exempt, and drop the packets that come from them. A change is
applied within a second. Everything is compared at the start and every --compare-every, so
that a table that was flushed or deleted is restored. While the server is unreachable the
sets stay, and their elements time out.

Blocks and exemptions of asn: and country: are added by the files that --geoip-dir names,
blocks of up to 20,000 networks. Without it they are left out and counted: an exempt address
is dropped then where a range around it is blocked.

Never added: loopback, the addresses of the server, those that --never names, and blocks of
every address. The command needs the program nft, the capability CAP_NET_ADMIN, and a token
with the scope read.

When it ends, the sets stay; --remove-on-exit or a later --remove takes away what it
created.`,
		Example: `admin firewall nftables --never 198.51.100.0/24
admin firewall nftables --hook forward --reject
admin firewall nftables --table filter --sets-only
admin firewall nftables --geoip-dir /var/lib/stint/geoip
admin firewall nftables --dry-run
admin firewall nftables --remove`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runNftables(c.Context(), con, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.table, "table", "inet stint", "the table, of the family inet; created if it does not exist")
	flags.StringVar(&f.layout.Chain, "chain", "stint", "the chain")
	flags.StringVar(&f.layout.Hook, "hook", "input", "where packets are refused: "+strings.Join(firewall.Hooks, ", "))
	flags.IntVar(&f.layout.Priority, "priority", -10, "the priority of the chain; chains of lower priority come first")
	console.AllowNegative(c, "priority")
	flags.BoolVar(&f.drop, "drop", false, "drop refused packets (the default)")
	flags.BoolVar(&f.layout.Reject, "reject", false, "answer refused packets with an ICMP error")
	flags.BoolVar(&f.layout.SetsOnly, "sets-only", false, "only keep the sets, for rules of your own in the same table")
	flags.StringArrayVar(&f.never, "never", nil, "an address or network that is never added; may be repeated")
	flags.StringVar(&f.geoipDir, "geoip-dir", "", "add blocks of asn: and country: by the *.mmdb files of this directory, as the server does")
	flags.DurationVar(&f.compareEvery, "compare-every", 5*time.Minute, "how often everything is compared, at least 1s")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the commands for nft instead of executing them")
	flags.BoolVar(&f.remove, "remove", false, "remove what was created under the same --table and --chain, and end")
	flags.BoolVar(&f.removeOnExit, "remove-on-exit", false, "remove it when the command is interrupted")
	metricsFlag(flags, &f.metrics, "127.0.0.1:9118")
	c.MarkFlagsMutuallyExclusive("dry-run", "metrics-listen")
	c.MarkFlagsMutuallyExclusive("remove", "metrics-listen")
	c.MarkFlagsMutuallyExclusive("drop", "reject")
	c.MarkFlagsMutuallyExclusive("reject", "sets-only")
	c.MarkFlagsMutuallyExclusive("drop", "sets-only")
	c.MarkFlagsMutuallyExclusive("dry-run", "remove-on-exit")
	console.CompleteFlag(c, "hook", firewall.Hooks...)
	return c
}

// options validates the flags.
func (f *firewallFlags) options(con *console.Console) (firewall.Options, error) {
	table, isInet := strings.CutPrefix(f.table, "inet ")
	if !isInet && strings.Contains(f.table, " ") {
		return firewall.Options{}, console.Usagef("--table: %q is not of the family inet, which alone holds IPv4 and IPv6", f.table)
	}
	f.layout.Table = table
	if err := f.layout.Validate(); err != nil {
		return firewall.Options{}, console.Usagef("%w", err)
	}
	if f.compareEvery < time.Second {
		return firewall.Options{}, console.Usagef("--compare-every must be at least 1s")
	}
	o := firewall.Options{
		Layout: f.layout, CompareEvery: f.compareEvery,
		Logf: func(format string, args ...any) { con.Notef("%s", output.Escape(fmt.Sprintf(format, args...))) },
	}
	for _, text := range f.never {
		network, err := parseNetwork(text)
		if err != nil {
			return o, console.Usagef("--never: %q is not an address or network; write for example 203.0.113.7 or 2001:db8::/48", text)
		}
		o.Never = append(o.Never, network)
	}
	files, err := geoip.Open(f.geoipDir)
	if err != nil {
		return o, console.Usagef("--geoip-dir: %w", err)
	}
	if files != nil {
		o.Origins = networksOf(files, o.Logf)
	}
	return o, nil
}

// networksOf returns a function that reloads changed files before it looks up networks. If a
// file is unusable, the previous ones stay in effect, which is logged once.
func networksOf(files *geoip.Database, logf func(format string, args ...any)) firewall.NetworksOf {
	failed := false
	return func(o keys.Origin, limit int) ([]netip.Prefix, bool) {
		_, err := files.Reload()
		if err != nil && !failed {
			logf("The GeoIP files could not be read again, the earlier ones stay in effect: %v", err)
		}
		failed = err != nil
		if _, known := files.Extent(o); !known {
			return nil, false
		}
		return files.Networks(o, limit)
	}
}

func parseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		address = address.Unmap().WithZone("")
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err == nil { // an IPv4-mapped one means the addresses of IPv4
		network, _ = keys.NetworkPattern(network).Network()
	}
	return network, err
}

func runNftables(ctx context.Context, con *console.Console, f *firewallFlags) error {
	o, err := f.options(con)
	if err != nil {
		return err
	}
	if f.remove {
		return removeFirewall(ctx, con, f)
	}
	base, token, err := con.AdminListener()
	if err != nil {
		return err
	}
	server, err := client.New(base, token, console.Admin.Default)
	if err != nil {
		return console.Usagef("%w", err)
	}
	o.Progress = &firewall.Progress{}
	sync := firewall.New(blockSource{server, base}, o)
	if f.dryRun {
		script, err := sync.DryRun(ctx)
		if err == nil {
			_, err = fmt.Fprint(con.Out(), script)
		}
		return err
	}
	stop, err := serveMetrics(con, f.metrics, firewallMetrics(o.Progress))
	if err != nil {
		return err
	}
	defer stop()
	err = sync.Run(ctx)
	if f.removeOnExit && err == nil {
		err = removeFirewall(context.WithoutCancel(ctx), con, f)
	}
	return err
}

func removeFirewall(ctx context.Context, con *console.Console, f *firewallFlags) error {
	if f.dryRun {
		script, err := firewall.Removal(ctx, f.layout)
		if err == nil {
			_, err = fmt.Fprint(con.Out(), script)
		}
		return err
	}
	err := firewall.Remove(ctx, f.layout)
	if err == nil {
		con.Notef("What it created in the table inet %s is removed.", f.layout.Table)
	}
	return err
}

// blockSource reads blocks and exemptions from the admin listener at base.
type blockSource struct {
	*client.Client
	base string
}

// Entries implements firewall.Source.
func (s blockSource) Entries(ctx context.Context) ([]wire.Entry, error) {
	all := wire.EntryList{EntryFilter: wire.EntryFilter{Lists: true}}
	blocks, err := client.Pages(ctx, s.Client, wire.Blocks.List, all, 0)
	if err != nil {
		return nil, err
	}
	exemptions, err := client.Pages(ctx, s.Client, wire.Exemptions.List, all, 0)
	return append(blocks.Items, exemptions.Items...), err
}

// Changes implements firewall.Source.
func (s blockSource) Changes(ctx context.Context, opened func()) iter.Seq2[*wire.AuditEntry, error] {
	return func(yield func(*wire.AuditEntry, error) bool) {
		for event, err := range s.Events(ctx, url.Values{"kind": {"block,change"}}, "", opened) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case event.Change == nil && event.Skipped > 0:
				continue // decisions were omitted
			case !yield(event.Change, nil):
				return
			}
		}
	}
}

// Addresses implements firewall.Source.
func (s blockSource) Addresses(ctx context.Context) ([]netip.Addr, error) {
	u, err := url.Parse(s.base)
	if err != nil {
		return nil, err
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		err = &client.Unreachable{URL: u.Scheme + "://" + u.Host, Err: err}
	}
	return addresses, err
}
