// Package doors holds the pages of this folder, from which the page Connect and the
// command connect take their configurations.
package doors

import "embed"

// Pages are the pages: one for each gateway or source, and README.md.
//
//go:embed *.md
var Pages embed.FS
