package adminui_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// lateForm sends the first half of a form, logs out after a wait, and sends the rest. It returns
// the status of the answer to the form.
func (v *visitor) lateForm(path string, form url.Values, wait time.Duration) int {
	v.t.Helper()
	text := form.Encode()
	reader, writer := io.Pipe()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.node.url+path, reader)
	must(v.t, err)
	r.ContentLength = int64(len(text))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("X-CSRF-Token", v.csrf)
	status := make(chan int, 1)
	go func() {
		answer, err := v.http.Do(r)
		_ = reader.CloseWithError(err)
		if err != nil {
			status <- 0
			return
		}
		_ = answer.Body.Close()
		status <- answer.StatusCode
	}()
	_, err = io.WriteString(writer, text[:len(text)/2])
	must(v.t, err)
	time.Sleep(wait)
	v.post("/logout", nil).is(http.StatusSeeOther)
	_, _ = io.WriteString(writer, text[len(text)/2:]) // fails if the server has answered
	_ = writer.Close()
	return <-status
}

// The session must set up two-factor authentication, and its user logs out while a request of
// the session is still arriving.
func TestSetUpThatArrivesAfterLogoutChangesNothing(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) {
		d.Logins.Sessions.RequireTOTP = func() identity.TOTPRoles { return "admin" }
	})
	v := n.visitor(t)
	v.post("/login", mariasLogin).is(http.StatusSeeOther)
	v.get("/account").is(http.StatusOK)
	secret := v.post("/account/totp/start", nil).is(http.StatusOK).secret()
	// More than the server reads before it authorizes the request.
	form := url.Values{"code": {n.code(t, secret)}, "pad": {strings.Repeat("x", 64<<10)}}
	if status := v.lateForm("/account/totp", form, 2*httpserver.AccessInterval); status == http.StatusOK {
		t.Error("the form was accepted")
	}
	if maria := n.userNamed(t, "maria"); !maria.TOTPSince.IsZero() {
		t.Error("two-factor authentication was enabled by a session that had ended")
	}
}
