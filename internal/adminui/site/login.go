package site

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/httpserver"
)

// LoginPage is the login form.
type LoginPage struct {
	Frame
	Next    string
	Name    string
	Problem string // the problem, "" on the first visit
	Advice  string
	// Ended means that a change was not made because its session had ended. Unsent is the form
	// of that change, nil if it could not be kept.
	Ended  bool
	Unsent *UnsentForm

	OpenID *OpenIDChoice // nil without a provider
	// AskPassword opens the password form if it is collapsed.
	AskPassword bool
	// LoggedOut means that the session here has ended. The provider's session continues and can
	// be ended at LogoutURL, "" if that is unknown.
	LoggedOut bool
	LogoutURL string
	// Changed means that the password was changed, which ended all sessions.
	Changed bool
}

// OpenIDChoice is the link from the login page to the OpenID provider.
type OpenIDChoice struct {
	Label, Start string
	Failing      time.Time // since when the provider is unreachable, zero if it is reachable
	// NoPasswords means that few users may log in with a password. It collapses the form.
	NoPasswords bool
}

// LoginDone leads to the page that was requested before the login.
type LoginDone struct {
	Frame
	Next string
}

// UnsentForm is a form that was sent after its session had ended, so that it can be sent again
// after the next login. It is part of the login form and is not stored.
type UnsentForm struct {
	Action string // the form's target
	Back   string // the page with the form
	values url.Values
}

// maxUnsent bounds an unsent form, in bytes: together with the rest of the login form it must
// be below the limit of that form.
const maxUnsent = 8000

// UnsentFields are the names of the login form's fields that contain the unsent form.
const (
	unsentAction = "unsent_action"
	unsentBack   = "unsent_back"
	unsentValues = "unsent"
)

// notKept reports whether a field belongs to the session, or must not be shown on a page.
func notKept(name string) bool {
	return name == "csrf" || name == "code" || strings.Contains(name, "password") || strings.Contains(name, "secret")
}

// unsentOf returns the form of a request without a session, nil if it cannot be kept. It keeps
// only forms of these pages: a form from another site must not be offered for sending after the
// login.
func unsentOf(c *httpserver.Call) *UnsentForm {
	if c.Method() != http.MethodPost || c.Get("Sec-Fetch-Site") != "same-origin" || c.Path() == "/logout" || form.HasUpload(c.Route().Path) {
		return nil
	}
	values, err := form.Read(c)
	if err != nil {
		return nil
	}
	u := &UnsentForm{Action: OwnPath(c.OriginalURL()), Back: refererPath(c), values: url.Values{}}
	for name, all := range values {
		if !notKept(name) {
			u.values[name] = all
		}
	}
	if len(u.values) == 0 || len(u.values.Encode()) > maxUnsent {
		return nil
	}
	return u
}

// ReadUnsent returns the unsent form in a login form, nil for none.
func ReadUnsent(values url.Values) *UnsentForm {
	fields, err := url.ParseQuery(values.Get(unsentValues))
	if err != nil || len(fields) == 0 {
		return nil
	}
	return &UnsentForm{Action: OwnPath(values.Get(unsentAction)), Back: OwnPath(values.Get(unsentBack)), values: fields}
}

// LoginFields returns the unsent form as fields of the login form, for ReadUnsent.
func (u *UnsentForm) LoginFields() []Field {
	return HiddenFields(unsentAction, u.Action, unsentBack, u.Back, unsentValues, u.values.Encode())
}

// Fields returns the fields of the unsent form.
func (u *UnsentForm) Fields() []Field {
	var all []Field
	for _, name := range sortedNames(u.values) {
		for _, value := range u.values[name] {
			all = append(all, Field{name, value})
		}
	}
	return all
}

// Shown returns the fields that people can read.
func (u *UnsentForm) Shown() []Field {
	return slices.DeleteFunc(u.Fields(), func(f Field) bool {
		return f.Name == "back" || f.Name == "revision" || f.Name == "expect" || strings.TrimSpace(f.Value) == ""
	})
}

// Label formats the name of a field for people.
func (f Field) Label() string { return format.Capital(strings.ReplaceAll(f.Name, "_", " ")) }

// refererPath returns the page from which a request comes, "/" if it names none of these pages.
func refererPath(c *httpserver.Call) string {
	from, err := url.Parse(c.Get("Referer"))
	if err != nil || from.Host != string(c.Request().Host()) {
		return "/"
	}
	return OwnPath(from.RequestURI())
}
