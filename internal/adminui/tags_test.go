package adminui_test

import (
	"regexp"
	"testing"

	"github.com/stint-dev/stint/test/storetest"
)

var expectField = regexp.MustCompile(`name="expect" value="([^"]*)"`)

// expects returns what the forms of a page expect, "" for a page without any.
func (a *answer) expects() string {
	if found := expectField.FindStringSubmatch(a.body); found != nil {
		return found[1]
	}
	return ""
}

// tag returns what a form has to expect of a version of a policy.
func (n *node) tag(t testing.TB, name string, version int64) string {
	t.Helper()
	return string(storetest.TagOfVersion(t, n.store.Policies, name, version))
}
