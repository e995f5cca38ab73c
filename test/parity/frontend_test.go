package parity

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/cli/console"
)

// request is one request of REST. "PATH if VERSION" sends If-Match.
type request struct{ method, path, body string }

// form is the form of a page: its fields in pairs, and the list of an import.
type form struct {
	path   string
	fields []string
	upload string // sent as multipart, the field file
}

// command is a command with its arguments. usage is the text with which it refuses
// them itself, without calling the server; "" if the server decides.
type command struct {
	args  []string
	stdin string
	usage string
	// isMissing is whether the invalid value is the name of something that does not exist.
	isMissing bool
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a *answer) wants(t *testing.T, status int) {
	t.Helper()
	if a.status != status {
		t.Fatalf("got %d, want %d: %s", a.status, status, a.body)
	}
}

// member returns a member of a JSON answer by its path, as "items.0.id".
func (a *answer) member(t *testing.T, path string) string {
	t.Helper()
	var value any
	must(t, json.Unmarshal([]byte(a.body), &value))
	for _, name := range strings.Split(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			if value = nil; len(v) > 0 {
				value = v[0]
			}
		}
	}
	switch v := value.(type) {
	case string:
		return v
	case float64:
		text, err := json.Marshal(v)
		must(t, err)
		return string(text)
	}
	t.Fatalf("no %s in %s", path, a.body)
	return ""
}

// hidden returns the value of a hidden field of a page.
func (a *answer) hidden(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(a.body)
	if found == nil {
		t.Fatalf("the page has no field %s: %s", name, pageText(a.body))
	}
	return html.UnescapeString(found[1])
}

func (f form) encode(t *testing.T, csrf string) (body, mediaType string) {
	if f.upload == "" {
		values := url.Values{"csrf": {csrf}}
		for i := 0; i < len(f.fields); i += 2 {
			values.Add(f.fields[i], f.fields[i+1])
		}
		return values.Encode(), "application/x-www-form-urlencoded"
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	must(t, w.WriteField("csrf", csrf))
	for i := 0; i < len(f.fields); i += 2 {
		must(t, w.WriteField(f.fields[i], f.fields[i+1]))
	}
	part, err := w.CreateFormFile("file", "list.txt")
	must(t, err)
	_, err = io.WriteString(part, f.upload)
	must(t, err)
	must(t, w.Close())
	return b.String(), w.FormDataContentType()
}

// run runs a command in this process, and returns its exit code and what it wrote to
// standard error.
func (n *node) run(t *testing.T, c command) (console.Code, string) {
	t.Helper()
	open := func(name, content string) *os.File {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	errors := open("stderr", "")
	env := map[string]string{console.EnvURL: n.admin, console.EnvCheckURL: n.checks, console.EnvToken: n.token}
	code := cli.Main(c.args, console.System{
		Name: "admin", Stdin: open("stdin", c.stdin), Stdout: open("stdout", ""), Stderr: errors,
		Getenv: func(name string) string { return env[name] }, Now: time.Now,
	})
	text, err := os.ReadFile(errors.Name())
	must(t, err)
	return code, strings.TrimSpace(string(text))
}

// fault is the error that a front end returns for a mistake.
type fault struct{ code, field string }

// problem returns the fault in an answer of REST, and its text without the field; for
// a confirmation, the reason for it.
func (a *answer) problem(t *testing.T) (fault, string) {
	t.Helper()
	var p struct {
		Code, Field, Detail string
		Reason              string `json:"confirm_reason"`
	}
	must(t, json.Unmarshal([]byte(a.body), &p))
	if p.Reason != "" {
		return fault{p.Code, p.Field}, p.Reason
	}
	return fault{p.Code, p.Field}, strings.TrimPrefix(p.Detail, p.Field+": ")
}

var tags = regexp.MustCompile(`<[^>]*>`)

func pageText(body string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(body, ""))), " ")
}

var (
	fieldError = regexp.MustCompile(`(?s)<p class="field-error">.*?</p>`)
	fieldName  = regexp.MustCompile(`<(?:input|select|textarea)[^>]*\sname="([^"]+)"[^>]*>`)
)

// namesOf are the fields of the API that have another name in a form.
var namesOf = map[string]string{"until": "expires_at", "key": "pattern", "limit": "rules", "window": "rules"}

// faultField returns the field of the API beside which a page shows a sentence; false
// where the page does not show it.
func faultField(body, sentence string) (string, bool) {
	for _, at := range fieldError.FindAllStringIndex(body, -1) {
		if !containsSentence(pageText(body[at[0]:at[1]]), sentence) {
			continue
		}
		before := fieldName.FindAllStringSubmatch(body[:at[0]], -1)
		if len(before) == 0 {
			return "", true
		}
		name := before[len(before)-1][1]
		if as, known := namesOf[name]; known {
			name = as
		}
		return name, true
	}
	return "", containsSentence(pageText(body), sentence)
}

// marksInvalid reports whether a page marks the input of a field of the API.
func marksInvalid(body, field string) bool {
	for _, input := range fieldName.FindAllString(body, -1) {
		if strings.Contains(input, `name="`+field+`"`) && strings.Contains(input, `aria-invalid="true"`) {
			return true
		}
	}
	return false
}

var instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// containsSentence reports whether a text contains a sentence, which may begin with a capital.
// Instants in them may differ.
func containsSentence(text, sentence string) bool {
	text, sentence = instants.ReplaceAllString(text, "T"), instants.ReplaceAllString(sentence, "T")
	sentence = strings.Join(strings.Fields(sentence), " ")
	return sentence != "" && (strings.Contains(text, sentence) || strings.Contains(text, strings.ToUpper(sentence[:1])+sentence[1:]))
}
