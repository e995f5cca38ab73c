package rules_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/rules"
)

func TestOnlyShadowPoliciesNamedSoAreDrafts(t *testing.T) {
	for name, test := range map[string]struct {
		policy rules.Policy
		of     string
	}{
		"a draft":                        {rules.Policy{Name: "login.draft", Mode: rules.Shadow}, "login"},
		"a shadow policy of its own":     {rules.Policy{Name: "login", Mode: rules.Shadow}, ""},
		"a policy in force that ends so": {rules.Policy{Name: "login.draft", Mode: rules.Enforce}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if of, is := rules.DraftOf(&test.policy); of != test.of || is != (test.of != "") {
				t.Errorf("it is the draft of %q, %v; want %q", of, is, test.of)
			}
		})
	}
}
