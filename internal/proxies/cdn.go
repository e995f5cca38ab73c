package proxies

import (
	_ "embed"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

//go:embed cdn.txt
var cdnFile string

// edges are the networks of content delivery networks, sorted, none within another.
type edges struct {
	networks []netip.Prefix
	names    []string
}

var allEdges = sync.OnceValue(func() edges {
	all, err := parseEdges(cdnFile)
	if err != nil {
		panic("proxies: cdn.txt: " + err.Error()) // a test reads it
	}
	return all
})

func parseEdges(text string) (edges, error) {
	var all edges
	names := map[netip.Prefix]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		for _, word := range words[1:] {
			network, err := netip.ParsePrefix(word)
			if err != nil || network != network.Masked() {
				return all, fmt.Errorf("%q is no network", word)
			}
			all.networks, names[network] = append(all.networks, network), words[0]
		}
	}
	slices.SortFunc(all.networks, netip.Prefix.Compare)
	for i, network := range all.networks {
		if i > 0 && all.networks[i-1].Overlaps(network) {
			return all, fmt.Errorf("%s is within %s", network, all.networks[i-1])
		}
		all.names = append(all.names, names[network])
	}
	return all, nil
}

func aboutEdge(cdn string) string {
	return "This is an edge of " + cdn + ", with thousands of visitors behind it: it gets no points of evidence and no automatic blocks. Trust the network as a proxy, so that the visitors' own addresses are counted; see --trusted-proxies."
}

// OverlapsCDN returns the name of a content delivery network of whose edges some are in a network, "" for
// none.
func OverlapsCDN(network netip.Prefix) string {
	all := allEdges()
	if at := slices.IndexFunc(all.networks, network.Overlaps); at >= 0 {
		return all.names[at]
	}
	return ""
}

// CDN returns the name of the content delivery network from whose edges an address is, "" for none. A
// site behind it that does not trust it as a proxy takes each edge for one client, with thousands of
// people behind it.
func CDN(a netip.Addr) string {
	all := allEdges()
	a = a.Unmap()
	at, found := slices.BinarySearchFunc(all.networks, a, func(network netip.Prefix, a netip.Addr) int { return network.Addr().Compare(a) })
	if !found {
		at--
	}
	if at < 0 || !all.networks[at].Contains(a) {
		return ""
	}
	return all.names[at]
}
