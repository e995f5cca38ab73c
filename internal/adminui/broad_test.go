package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

func TestABroadEntryIsTypedToLastLonger(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	ctx := context.Background()
	all := n.block(t, "*", "an attack", "jo", blocks.Manual, time.Hour)
	exempt, err := n.store.AddExemption(ctx, audit.Stint("test"), blocks.Exemption{Pattern: pattern(t, "ip:*"), Author: "jo", Expires: n.clock.Now().Add(time.Hour)}, blocks.Fail)
	must(t, err)
	for i := range 60 { // a list of more than one page, whose other patterns hold a * too
		n.block(t, "token:x"+strconv.Itoa(i)+"_*", "", "jo", blocks.Manual, time.Hour)
	}
	for path, e := range map[string]struct {
		id, pattern string
		revision    int64
	}{
		"/blocks":     {all.ID, "*", all.Revision},
		"/exemptions": {exempt.Item.ID, "ip:*", exempt.Item.Revision},
	} {
		for _, length := range []string{"1h", "good"} {
			form := url.Values{"reason": {"later"}, "for": {length}, "revision": {strconv.FormatInt(e.revision, 10)}}
			olu.post(path+"/"+e.id, form).is(http.StatusUnprocessableEntity).holds(`id="edit-confirm"`).holds("Nothing was changed: it selects every").holds(`value="later"`)
			form.Set("confirm", "yes")
			olu.post(path+"/"+e.id, form).is(http.StatusUnprocessableEntity).holds(`id="edit-confirm"`)
		}
		shorter := url.Values{"reason": {"shorter"}, "for": {"until"}, "until": {n.clock.Now().Add(30 * time.Minute).UTC().Format("2006-01-02 15:04")}, "revision": {strconv.FormatInt(e.revision, 10)}}
		olu.post(path+"/"+e.id, shorter).is(http.StatusSeeOther)
	}
	block, err := n.store.FindBlockByID(ctx, all.ID)
	must(t, err)
	longer := url.Values{"reason": {"meant"}, "for": {"good"}, "confirm": {"*"}, "revision": {strconv.FormatInt(block.Revision, 10)}}
	olu.post("/blocks/"+all.ID, longer).is(http.StatusSeeOther)
	if block, err = n.store.FindBlockByID(ctx, all.ID); err != nil || block.Reason != "meant" || !block.Expires.IsZero() {
		t.Errorf("got %+v, %v", block, err)
	}
}
