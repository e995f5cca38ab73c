// Package web holds the templates of the admin pages and the files that they
// are served with, as they stand: there is no build step.
package web

import "embed"

// Templates holds templates/*.html.
//
//go:embed templates
var Templates embed.FS

// Static holds what browsers fetch; static/README.md says where it is from.
//
//go:embed static
var Static embed.FS
