package app

import "github.com/stint-dev/stint/internal/buildinfo"

// Version returns the version of the build, "dev" where it was built from a
// checkout.
func Version() string { return buildinfo.Read().Version }
