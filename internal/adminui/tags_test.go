package adminui_test

import (
	"regexp"
	"testing"

	"github.com/stint-dev/stint/test/storetest"
)

var expectField = regexp.MustCompile(`name="expect" value="([^"]*)"`)

// expects returns the expected tag in the forms of a page, "" for a page without one.
func (a *answer) expects() string {
	if found := expectField.FindStringSubmatch(a.body); found != nil {
		return found[1]
	}
	return ""
}

// tag returns the tag of a version of a policy, as a form sends it.
func (n *node) tag(t testing.TB, name string, version int64) string {
	t.Helper()
	return string(storetest.TagOfVersion(t, n.store.Policies, name, version))
}
