// Package buildinfo says which build of Stint this is.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Info is a build.
type Info struct {
	Version  string // "dev" where it was built from a checkout
	Revision string // of the source, shortened; "unknown" where none was recorded
	Go       string // the version of Go
}

// revisionDigits is how much of a revision is shown.
const revisionDigits = 12

// Read returns this program's build.
func Read() Info {
	info := Info{Version: "dev", Revision: "unknown", Go: runtime.Version()}
	built, known := debug.ReadBuildInfo()
	if !known {
		return info
	}
	if v := built.Main.Version; v != "" && v != "(devel)" {
		info.Version = v
	}
	for _, s := range built.Settings {
		if s.Key == "vcs.revision" && s.Value != "" {
			info.Revision = s.Value[:min(len(s.Value), revisionDigits)]
		}
	}
	return info
}

// String returns one line for people.
func (i Info) String() string {
	return "stint " + i.Version + " (revision " + i.Revision + ", " + i.Go + ")"
}
