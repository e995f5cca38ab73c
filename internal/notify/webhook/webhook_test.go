package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
)

func TestMessageIsSentAsSignedJSON(t *testing.T) {
	at := time.Unix(1_795_000_000, 0)
	var got *http.Request
	var text []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		text, _ = io.ReadAll(r.Body)
	}))
	defer receiver.Close()
	c := New(receiver.URL, "shared secret", egress.New(egress.Options{AllowPrivate: true}), func() time.Time { return at })
	m := notify.Message{Kind: notify.AutomaticBlock, Subject: "Blocked", Node: "a", Total: 1, Items: []notify.Notification{
		{ID: 7, At: at, Subject: "Blocked", Text: "why", Facts: map[string]string{"key": "token:\"><script>"}},
	}}
	if err := c.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	// The receiver's side, as in the documentation.
	mac := hmac.New(sha256.New, []byte("shared secret"))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), text)
	want := fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
	if signature := got.Header.Get(SignatureHeader); signature != want {
		t.Errorf("signed %q, want %q", signature, want)
	}
	var b body
	if err := json.Unmarshal(text, &b); err != nil || b.Items[0].Facts["key"] != "token:\"><script>" || b.Items[0].ID != 7 {
		t.Errorf("read %+v, %v", b, err)
	}
	if got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("content type %q", got.Header.Get("Content-Type"))
	}
}
