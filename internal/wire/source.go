package wire

import "embed"

// Source is the source of this package. The OpenAPI document takes its descriptions from
// the comments of the types, so that the two cannot differ.
//
//go:embed *.go
var Source embed.FS
