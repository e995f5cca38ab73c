package chart

import (
	"fmt"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// QR is a QR code: the dark modules as the path of an SVG. Side is the length of its side in
// modules, including the quiet zone that scanners need.
type QR struct {
	Path string
	Side int
}

const quietZone = 4 // modules

// DrawQR returns the QR code of a text.
func DrawQR(text string) (QR, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return QR{}, fmt.Errorf("draw the QR code: %w", err)
	}
	size := code.Bounds().Dx()
	var path strings.Builder
	for y := range size {
		for x := 0; x < size; x++ {
			from := x
			for x < size && isDark(code.At(x, y)) {
				x++
			}
			if x > from { // adjacent dark modules are one rectangle, to avoid seams
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", from+quietZone, y+quietZone, x-from, x-from)
			}
		}
	}
	return QR{Path: path.String(), Side: size + 2*quietZone}, nil
}

func isDark(c interface{ RGBA() (r, g, b, a uint32) }) bool {
	r, _, _, _ := c.RGBA()
	return r < 1<<15
}
