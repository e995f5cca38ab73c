package adminui_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"

	"github.com/stint-dev/stint/internal/rules"
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
	all, err := n.store.Policies.PolicyVersions(context.Background(), name)
	must(t, err)
	for _, v := range all {
		if v.Version == version {
			return string(rules.TagOf(v))
		}
	}
	return strconv.FormatInt(version, 10) + "-0123456789abcdef"
}
