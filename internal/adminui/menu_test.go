package adminui_test

import (
	"regexp"
	"strings"
	"testing"
)

var menuName = regexp.MustCompile(`class="nav-(?:name|link)"[^>]*>([A-Z][a-z]+)`)

// TestMenuListsPagesInOrder: each page says its place itself. Others may come between these.
func TestMenuListsPagesInOrder(t *testing.T) {
	n := newNode(t)
	for user, names := range map[string]string{
		"maria": "Monitor Overview Traffic Live Offenders Bots Reports Enforce Blocks Exemptions Policies Keys Administration Jobs Sites Bouncers Notifications Audit Connect Tokens Users Settings",
		"vic":   "Monitor Overview Traffic Live Offenders Bots Reports Enforce Blocks Exemptions Policies Keys Administration Jobs Sites Bouncers Notifications Audit Connect Settings",
	} {
		want := strings.Fields(names)
		var got []string
		for _, m := range menuName.FindAllStringSubmatch(n.as(t, user).get("/settings").body, -1) {
			got = append(got, m[1])
			if len(want) > 0 && m[1] == want[0] {
				want = want[1:]
			}
		}
		if len(want) > 0 {
			t.Errorf("%s: the menu is %v, which lacks %v in its order", user, got, want)
		}
		if user == "vic" && strings.Contains(strings.Join(got, " "), "Tokens") {
			t.Errorf("a viewer sees %v", got)
		}
	}
}
