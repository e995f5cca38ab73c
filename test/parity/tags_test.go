package parity

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

// unknownTag is the tag of no state.
const unknownTag = "0123456789abcdef"

var policyPath = regexp.MustCompile(`/policies/([^/?]+)`)

// tagOf returns what a change at a path of REST or of a page expects of a version of a
// policy: "" for 0, and what no policy ever was for a version that there is not. "now" is
// what REST answers at the path now, "now PATH" at another, and "other" is neither.
func (n *node) tagOf(t *testing.T, path, version string) string {
	t.Helper()
	if at, isNow := strings.CutPrefix(version, "now"); isNow {
		if at = strings.TrimSpace(at); at == "" {
			at = path
		}
		return strings.Trim(n.rest(t, request{"GET", at, ""}, n.token).header.Get("ETag"), `"`)
	}
	if version == "other" {
		return unknownTag
	}
	named := policyPath.FindStringSubmatch(path)
	if version == "0" || named == nil {
		return ""
	}
	a := n.rest(t, request{"GET", wire.PathPolicies + "/" + named[1] + "/versions", ""}, n.token)
	var all wire.Page[wire.Policy]
	switch {
	case a.status == http.StatusNotFound:
	case a.status != http.StatusOK:
		t.Fatalf("the versions of %s: %d %s", named[1], a.status, a.body)
	default:
		if err := json.Unmarshal([]byte(a.body), &all); err != nil || len(all.Items) == 0 {
			t.Fatalf("the versions of %s: %v\n%s", named[1], err, a.body)
		}
	}
	for _, p := range all.Items {
		if strconv.FormatInt(p.Version, 10) == version {
			if p.ETag == "" {
				t.Fatalf("version %s of %s has no tag:\n%s", version, named[1], a.body)
			}
			return p.ETag
		}
	}
	return version + "-" + unknownTag
}
