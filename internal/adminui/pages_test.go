package adminui_test

import (
	"net/http"
	"testing"
)

func TestPagesEscapeHostileTexts(t *testing.T) {
	n := newNode(t)
	n.fill(t)
	v := n.as(t, "maria")
	for name, path := range n.pages(t) {
		t.Run(name, func(t *testing.T) {
			v.t = t
			v.get(path).is(http.StatusOK).lacks(" style=").lacks("<script>alert").lacks("<img")
		})
	}
}
