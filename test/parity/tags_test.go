package parity

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

// unknownTag is what nothing ever was.
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
	if a.status == http.StatusOK {
		found := regexp.MustCompile(`"etag":"(` + version + `-[0-9a-f]+)"`).FindStringSubmatch(strings.ReplaceAll(a.body, " ", ""))
		if found != nil {
			return found[1]
		}
	}
	return version + "-" + unknownTag
}
