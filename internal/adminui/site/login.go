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

// LoginPage is the form that logs somebody in.
type LoginPage struct {
	Frame
	Next    string
	Name    string
	Problem string // what did not work, "" on the first visit
	Advice  string
	// Ended says that a change was not made because its session had ended; Unsent is the
	// form, nil where it could not be kept.
	Ended  bool
	Unsent *UnsentForm

	OpenID *OpenIDChoice // nil without a provider
	// AskPassword opens the form of the password where it is folded away.
	AskPassword bool
	// LoggedOut says that the session here has ended. That of the provider goes on, and
	// is ended at LogoutURL, "" where that is not known.
	LoggedOut bool
	LogoutURL string
	// Changed says that the password was changed, which ended all sessions.
	Changed bool
}

// OpenIDChoice leads from the login page to the OpenID provider.
type OpenIDChoice struct {
	Label, Start string
	Failing      time.Time // since when the provider cannot be reached, zero where it can
	// NoPasswords says that few users may log in with a password, and folds the form away.
	NoPasswords bool
}

// LoginDone leads on to the page that was asked for before the login.
type LoginDone struct {
	Frame
	Next string
}

// UnsentForm is a form that was sent after its session had ended, so that it can be sent
// after the next login. It travels in the login's own form and is kept nowhere.
type UnsentForm struct {
	Action string // where it was sent
	Back   string // the page that it was on
	values url.Values
}

// maxUnsent is how many bytes of an unsent form are kept: with the rest of the login's
// form it must be below the limit of that.
const maxUnsent = 8000

// UnsentFields are the names of the login's fields that have the unsent form.
const (
	unsentAction = "unsent_action"
	unsentBack   = "unsent_back"
	unsentValues = "unsent"
)

// notKept are the fields that a form has for its session, and those that no page may show.
func notKept(name string) bool {
	return name == "csrf" || name == "code" || strings.Contains(name, "password") || strings.Contains(name, "secret")
}

// unsentOf returns the form of a request without a session, nil where it has none that
// can be kept. Only a form of these pages is kept: what another site sends must not be
// offered for sending after the login.
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

// ReadUnsent returns the unsent form in a login's form, nil for none.
func ReadUnsent(values url.Values) *UnsentForm {
	fields, err := url.ParseQuery(values.Get(unsentValues))
	if err != nil || len(fields) == 0 {
		return nil
	}
	return &UnsentForm{Action: OwnPath(values.Get(unsentAction)), Back: OwnPath(values.Get(unsentBack)), values: fields}
}

// LoginFields are the fields of the login's form that ReadUnsent reads.
func (u *UnsentForm) LoginFields() []Field {
	return HiddenFields(unsentAction, u.Action, unsentBack, u.Back, unsentValues, u.values.Encode())
}

// Fields are those of the form itself.
func (u *UnsentForm) Fields() []Field {
	var all []Field
	for _, name := range sortedNames(u.values) {
		for _, value := range u.values[name] {
			all = append(all, Field{name, value})
		}
	}
	return all
}

// Shown are the fields that say something to people.
func (u *UnsentForm) Shown() []Field {
	return slices.DeleteFunc(u.Fields(), func(f Field) bool {
		return f.Name == "back" || f.Name == "revision" || f.Name == "expect" || strings.TrimSpace(f.Value) == ""
	})
}

// Label writes the name of a field for people.
func (f Field) Label() string { return format.Capital(strings.ReplaceAll(f.Name, "_", " ")) }

// refererPath returns the page of ours that a request comes from, "/" where it names none.
func refererPath(c *httpserver.Call) string {
	from, err := url.Parse(c.Get("Referer"))
	if err != nil || from.Host != string(c.Request().Host()) {
		return "/"
	}
	return OwnPath(from.RequestURI())
}
