package chart

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
)

// Grid draws a network as up to 256 equal parts. It shows who would be hit in addition to the
// offenders.
type Grid struct {
	Head         string // "Its 256 ranges of 256 addresses"
	Width        int    // in the drawing's own units
	Height       int
	Cells        []gridCell
	Parts        []offences.SeenPart // parts with traffic
	Marked       *gridCell           // frame around the narrower range, nil for none
	MarkedName   string              // that range
	Offend, Only int                 // number of parts that offend, and that were only allowed
	Unseen       int
}

// gridCell is one part. X and Y are its upper left corner.
type gridCell struct {
	X, Y  int
	Kind  string // offends, allowed, or "" if not seen
	R     string // radius of the dot of an allowed part
	CX    int
	CY    int
	Title string
}

const (
	cellSize = 18
	cellStep = 20
)

// DrawGrid draws the parts of a network, each with a prefix of bits bits. Those in parts had
// traffic; marked is the range to outline, the zero pattern for none.
func DrawGrid(network netip.Prefix, bits int, parts []offences.SeenPart, marked keys.Pattern) *Grid {
	count := 1 << (bits - network.Bits())
	columns := 1 << ((bits - network.Bits() + 1) / 2)
	g := &Grid{
		Head: gridHead(count, bits, network.Addr().Is4()), Cells: make([]gridCell, count), Parts: parts,
		Width: columns*cellStep - (cellStep - cellSize), Height: count/columns*cellStep - (cellStep - cellSize),
	}
	for i := range g.Cells {
		x, y := i%columns*cellStep, i/columns*cellStep
		g.Cells[i] = gridCell{X: x, Y: y, CX: x + cellSize/2, CY: y + cellSize/2}
	}
	var most int64
	for _, part := range parts {
		if part.Refused == 0 {
			most = max(most, part.Allowed)
		}
	}
	for _, part := range parts {
		cell := &g.Cells[partIndex(part.Network.Addr(), network.Bits(), bits)]
		cell.Title = fmt.Sprintf("%s: %s, %s allowed", partName(part.Network), phrase.Count(part.Refused, "offence"), phrase.Number(part.Allowed))
		if part.Refused > 0 {
			cell.Kind = "offends"
			g.Offend++
			continue
		}
		cell.Kind = "allowed"
		cell.R = dotRadius(part.Allowed, most)
		g.Only++
	}
	g.Unseen = count - g.Offend - g.Only
	g.mark(network, bits, marked)
	return g
}

// mark draws a frame around the part that equals or contains a narrower pattern.
func (g *Grid) mark(network netip.Prefix, bits int, pattern keys.Pattern) {
	within, is := pattern.Network()
	if !is || within.Bits() < bits || !network.Contains(within.Addr()) {
		return
	}
	cell := g.Cells[partIndex(within.Addr(), network.Bits(), bits)]
	g.Marked, g.MarkedName = &cell, partName(netip.PrefixFrom(within.Addr(), bits).Masked())
}

// dotRadius returns a radius that grows with the allowed checks, on a logarithmic scale.
func dotRadius(allowed, most int64) string {
	return strconv.FormatFloat(3+4*math.Log1p(float64(allowed))/math.Log1p(float64(max(1, most))), 'f', 1, 64)
}

// partIndex returns the index of an address among the parts of its network: its bits from those
// of the network to those of a part.
func partIndex(addr netip.Addr, from, to int) int {
	raw := addr.AsSlice()
	index := 0
	for bit := from; bit < to; bit++ {
		index = index<<1 | int(raw[bit/8]>>(7-bit%8)&1)
	}
	return index
}

// partName formats a part; a single address has no prefix length.
func partName(part netip.Prefix) string {
	if part.IsSingleIP() {
		return part.Addr().String()
	}
	return part.String()
}

func gridHead(count, bits int, is4 bool) string {
	switch {
	case is4 && bits == 32:
		return "Its " + strconv.Itoa(count) + " addresses"
	case is4:
		return "Its " + strconv.Itoa(count) + " ranges of " + phrase.Number(int64(1)<<(32-bits)) + " addresses"
	case bits == 64:
		return "Its " + strconv.Itoa(count) + " networks of /64"
	}
	return "Its " + strconv.Itoa(count) + " ranges of /" + strconv.Itoa(bits)
}

// Sentence describes the drawing.
func (g *Grid) Sentence() string {
	return fmt.Sprintf("%s: %s offend, %s were only allowed, %s were not seen in the last day.",
		g.Head, phrase.Number(int64(g.Offend)), phrase.Number(int64(g.Only)), phrase.Number(int64(g.Unseen)))
}
