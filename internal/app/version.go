package app

import "runtime/debug"

// Version returns the version of the build, "dev" where it was built from a
// checkout.
func Version() string {
	info, known := debug.ReadBuildInfo()
	if !known || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
