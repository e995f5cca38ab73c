// Package migrations holds the schemas of both databases, as files that
// golang-migrate runs in order. See README.md beside this file for the rules
// that a new one has to keep.
package migrations

import "embed"

// Files holds the folders postgres and sqlite, each with an up and a down file
// for every number.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS
