package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestDescribeUsesLinkerValuesOrBuildInfo(t *testing.T) {
	const full = "3f2a9c41d07b6d1e0c5f8a7b9e2d4c6f1a3b5d70"
	settings := func(pairs ...string) (s []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			s = append(s, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return s
	}
	for name, test := range map[string]struct {
		version, commit, date string
		built                 *debug.BuildInfo
		want                  string
	}{
		"a release":     {"v1.2.3", full, "2026-11-20T10:00:00Z", &debug.BuildInfo{}, "v1.2.3 commit 3f2a9c41d07b of 2026-11-20"},
		"no build info": {"", "", "", nil, "dev commit unknown"},
		"no checkout":   {"", "", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "dev commit unknown"},
		"an installed tag": {"", "", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}},
			"v1.2.3 commit unknown"},
		"an installed commit": {"", "", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.4-0.20261120100000-3f2a9c41d07b"}},
			"v1.2.4-0.20261120100000-3f2a9c41d07b commit 3f2a9c41d07b of 2026-11-20"},
		"a checkout": {"", "", "", &debug.BuildInfo{
			Main:     debug.Module{Version: "v0.0.0-20261120100000-3f2a9c41d07b+dirty"},
			Settings: settings("vcs.revision", full, "vcs.time", "2026-11-20T10:00:00Z", "vcs.modified", "true"),
		}, "v0.0.0-20261120100000-3f2a9c41d07b+dirty commit 3f2a9c41d07b of 2026-11-20"},
		"an invalid date": {"v1.2.3", full, "yesterday", nil, "v1.2.3 commit 3f2a9c41d07b"},
	} {
		i := describe(test.version, test.commit, test.date, test.built)
		if got := i.Version + " " + i.Source(); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
