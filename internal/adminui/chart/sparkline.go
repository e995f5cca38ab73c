package chart

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/phrase"
)

// Sparkline is a line of one key's offences.
type Sparkline struct {
	Line, Area string
	// Foot is where the solid foot of a blocked key begins, "" if the key is not blocked.
	Foot, FootWidth string
	Sentence        string
}

// SparklinePoints is the number of points of a sparkline.
const SparklinePoints = 30

const (
	sparkWidth  = 88
	sparkHeight = 22
)

// DrawSparkline draws a trend on its own scale. blocked is when the key was blocked, zero if it
// is not.
func DrawSparkline(trend []int64, s format.TimeRange, blocked time.Time) *Sparkline {
	if len(trend) == 0 {
		return nil
	}
	most := slices.Max(trend)
	x := func(i int) float64 { return 1 + float64(i)*(sparkWidth-2)/float64(max(1, len(trend)-1)) }
	y := func(n int64) float64 {
		return sparkHeight - 3 - float64(n)/float64(max(1, most))*(sparkHeight-6)
	}
	var line strings.Builder
	for i, n := range trend {
		line.WriteString(verb(i) + strconv.FormatFloat(x(i), 'f', 1, 64) + " " + strconv.FormatFloat(y(n), 'f', 1, 64))
	}
	d := &Sparkline{Line: line.String(), Sentence: "At most " + phrase.Number(most) + " in " + phrase.Duration((s.Length() / time.Duration(len(trend))).Round(time.Second)) + "."}
	d.Area = d.Line + "L" + strconv.FormatFloat(x(len(trend)-1), 'f', 1, 64) + " 19L1 19Z"
	if !blocked.IsZero() {
		from := 1 + min(1, max(0, float64(blocked.Sub(s.From))/float64(s.Length())))*(sparkWidth-2)
		from = min(from, sparkWidth-5)
		d.Foot, d.FootWidth = strconv.FormatFloat(from, 'f', 1, 64), strconv.FormatFloat(sparkWidth-1-from, 'f', 1, 64)
	}
	return d
}
