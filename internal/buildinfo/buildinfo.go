// Package buildinfo says which build of Stint this is.
package buildinfo

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"time"
)

// Set by the linker in releases (scripts/dist.sh); "" in other builds, which the Go
// command describes instead.
var (
	version string // SemVer of the git tag, with v
	commit  string // in full
	date    string // of the commit, RFC 3339 in UTC
)

// Info is a build.
type Info struct {
	Version string    // SemVer with v; "dev" where no tag is known
	Commit  string    // of the source, shortened; "unknown" where none was recorded
	Date    time.Time // of the commit, zero where it is unknown
	Go      string    // the version of Go
}

// commitDigits is how much of a commit is shown.
const commitDigits = 12

// Read returns this program's build.
func Read() Info {
	built, _ := debug.ReadBuildInfo()
	return describe(version, commit, date, built)
}

// pseudoVersion is what the Go command calls a commit without a tag: it ends with the
// time and the start of the commit.
var pseudoVersion = regexp.MustCompile(`[.-](\d{14})-([0-9a-f]{12})(?:\+|$)`)

// describe returns the build that the first three, from the linker, describe, or else
// what the Go command recorded, which may be nil.
func describe(version, commit, date string, built *debug.BuildInfo) Info {
	if built != nil {
		v := built.Main.Version
		if v == "(devel)" {
			v = ""
		}
		version = first(version, v)
		if m := pseudoVersion.FindStringSubmatch(v); m != nil {
			commit = first(commit, m[2])
			if t, err := time.Parse("20060102150405", m[1]); err == nil {
				date = first(date, t.Format(time.RFC3339))
			}
		}
		for _, s := range built.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = first(commit, s.Value)
			case "vcs.time":
				date = first(date, s.Value)
			}
		}
	}
	info := Info{Version: first(version, "dev"), Commit: first(commit, "unknown"), Go: runtime.Version()}
	if len(info.Commit) > commitDigits {
		info.Commit = info.Commit[:commitDigits]
	}
	if t, err := time.Parse(time.RFC3339, date); err == nil {
		info.Date = t.UTC()
	}
	return info
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Source returns the commit and its day for people: "commit 3f2a9c41d07b of 2026-11-20".
func (i Info) Source() string {
	if i.Date.IsZero() {
		return "commit " + i.Commit
	}
	return "commit " + i.Commit + " of " + i.Date.Format(time.DateOnly)
}

// String returns one line for people.
func (i Info) String() string {
	return "stint " + i.Version + " (" + i.Source() + ", " + i.Go + ")"
}
