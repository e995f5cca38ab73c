package chart

import (
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
)

// Bars are the offences of one key over time, and its active blocks.
type Bars struct {
	Bars   []bar
	Blocks []barBlock
	Rules  []gridLine
	Ticks  []timeTick
	Total  int64
	LastHour,
	Shadow int64
	Range    format.TimeRange
	Width    time.Duration // of one bar
	Newest   time.Time     // time of the newest bar with an offence, zero for none
	Sentence string
}

type bar struct {
	At               time.Time
	X, W             string // percent
	Limited, Blocked string // heights, percent
	LimitedY         string
	BlockedY         string
	Shadow           string
	ShadowY          string
	Counts           offences.TimelinePoint
}

// barBlock is the time during which a block was active.
type barBlock struct{ X, W, Label, LabelX, Anchor string }

// BarCount is the number of bars in a chart; if only hours or days are stored, there are fewer.
const BarCount = 96

// DrawBars draws the activity of a key in the part of s that t covers, and the blocks that were
// active in it.
func DrawBars(t *offences.Timeline, s format.TimeRange, stood []*blocks.Entry, now time.Time) *Bars {
	s.From, s.To = t.From, t.To
	last := 0.97
	if s.Last > 0 {
		last = 0.86 // the label "now" is at the end
	}
	b := &Bars{Range: s, Width: t.Step, Ticks: ticksOf(s, last)}
	place := func(d time.Duration) float64 { return float64(d) / float64(max(time.Millisecond, s.Length())) }
	var most int64
	for _, p := range t.Points {
		n := p.Limited + p.Blocked
		most = max(most, n+p.Shadow)
		b.Total += n
		b.Shadow += p.Shadow
		if n > 0 || p.Shadow > 0 {
			b.Newest = p.At
		}
		if p.At.After(s.To.Add(-time.Hour)) {
			b.LastHour += n
		}
	}
	minutes := b.Width.Minutes()
	top, each := roundTop(float64(most) / minutes)
	for value := each; value < top; value += each {
		b.Rules = append(b.Rules, gridLine{Percent(1 - value/top), axisLabel(value) + " a minute"})
	}
	height := func(n int64) float64 { return float64(n) / minutes / top }
	for _, p := range t.Points {
		if p.Limited+p.Blocked+p.Shadow == 0 {
			continue
		}
		low, mid, high := height(p.Limited), height(p.Limited+p.Blocked), height(p.Limited+p.Blocked+p.Shadow)
		b.Bars = append(b.Bars, bar{
			At: p.At, X: Percent(place(p.At.Sub(s.From))), W: Percent(0.86 * place(t.Step)), Counts: p,
			Limited: Percent(low), LimitedY: Percent(1 - low), Blocked: Percent(mid - low), BlockedY: Percent(1 - mid),
			Shadow: Percent(high - mid), ShadowY: Percent(1 - high),
		})
	}
	for _, block := range stood {
		b.addBlock(block, now)
	}
	b.Sentence = phrase.Number(b.Total) + " offences in " + s.Name().String() + ", " + phrase.Number(b.LastHour) + " of them in its last hour."
	return b
}

func (b *Bars) addBlock(block *blocks.Entry, now time.Time) {
	end := now
	if !block.Expires.IsZero() && block.Expires.Before(end) {
		end = block.Expires
	}
	if !block.Ended().IsZero() && block.Ended().Before(end) {
		end = block.Ended()
	}
	if !end.After(b.Range.From) || block.Created.Time().After(b.Range.To) {
		return
	}
	place := func(t time.Time) float64 {
		return min(1, max(0, float64(t.Sub(b.Range.From))/float64(b.Range.Length())))
	}
	from, to := place(block.Created.Time()), place(end)
	mark := barBlock{X: Percent(from), W: Percent(max(0.006, to-from)), Label: "blocked " + phrase.Duration(end.Sub(block.Created.Time())), LabelX: Percent(to), Anchor: "start"}
	if to > 0.8 {
		mark.LabelX, mark.Anchor = Percent(from), "end"
	}
	b.Blocks = append(b.Blocks, mark)
}
