package parity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/cli/console"
)

type frontEnd string

const (
	byREST    frontEnd = "rest"
	byPage    frontEnd = "page"
	byCommand frontEnd = "command"
)

// texts are texts about front ends.
type texts map[frontEnd]string

var frontEnds = []frontEnd{byREST, byPage, byCommand}

// request is a request of REST.
type request struct {
	method, path string
	body         any    // an object, a plainText or a csvText; nil for none
	tag          string // of If-Match; "" for none
}

type (
	object    map[string]any
	list      []string
	plainText string
	csvText   string
)

// send returns a request with at most one body.
func send(method, path string, body ...any) *request {
	r := &request{method: method, path: path}
	if len(body) > 0 {
		r.body = body[0]
	}
	return r
}

// ifMatch returns the request with the header If-Match.
func (r *request) ifMatch(tag string) *request {
	r.tag = tag
	return r
}

// submit returns what submits the form of a page, with its fields in pairs of name and value.
func submit(path string, fields ...string) func(*operator) *answer {
	return func(o *operator) *answer { return o.submit(path, fields...) }
}

// command is a command line and its standard input.
type command struct {
	args  []string
	stdin string
}

func run(args ...string) *command { return &command{args: args} }

// input returns the command with a standard input.
func (c *command) input(text string) *command {
	c.stdin = text
	return c
}

type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (a *answer) wants(status int) {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("got %d, want %d: %s", a.status, status, a.body)
	}
}

// member returns a text or a number of a JSON answer, of the first item if it is a list.
func (a *answer) member(name string) string {
	a.t.Helper()
	var value struct{ Items []map[string]any }
	var one map[string]any
	must(a.t, json.Unmarshal([]byte(a.body), &one))
	must(a.t, json.Unmarshal([]byte(a.body), &value))
	if len(value.Items) > 0 {
		one = value.Items[0]
	}
	switch v := one[name].(type) {
	case string:
		return v
	case float64:
		return jsonOf(a.t, v)
	}
	a.t.Fatalf("no %s in %s", name, a.body)
	return ""
}

// hidden returns the value of a hidden field of a page.
func (a *answer) hidden(name string) string {
	a.t.Helper()
	found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(a.body)
	if found == nil {
		a.t.Fatalf("the page has no field %s: %s", name, pageText(a.body))
	}
	return html.UnescapeString(found[1])
}

// encodeForm encodes fields in pairs, as multipart with the field file if there is an upload.
func encodeForm(t *testing.T, fields []string, upload string) (body, mediaType string) {
	if upload == "" {
		values := url.Values{}
		for pair := range slices.Chunk(fields, 2) {
			values.Add(pair[0], pair[1])
		}
		return values.Encode(), "application/x-www-form-urlencoded"
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for pair := range slices.Chunk(fields, 2) {
		must(t, w.WriteField(pair[0], pair[1]))
	}
	part, err := w.CreateFormFile("file", "list.txt")
	must(t, err)
	_, err = io.WriteString(part, upload)
	must(t, err)
	must(t, w.Close())
	return b.String(), w.FormDataContentType()
}

// run runs a command in this process, and returns its exit code and what it wrote to
// standard error.
func (o *operator) run(c *command) (console.Code, string) {
	o.t.Helper()
	open := func(content string) *os.File {
		f, err := os.OpenFile(o.file(content), os.O_RDWR, 0)
		must(o.t, err)
		o.t.Cleanup(func() { f.Close() })
		return f
	}
	errors := open("")
	env := map[string]string{console.EnvURL: o.admin, console.EnvCheckURL: o.checks, console.EnvToken: o.token}
	code := cli.Main(c.args, console.System{
		Name: "admin", Stdin: open(c.stdin), Stdout: open(""), Stderr: errors,
		Getenv: func(name string) string { return env[name] }, Now: time.Now,
	})
	text, err := os.ReadFile(errors.Name())
	must(o.t, err)
	return code, strings.TrimSpace(string(text))
}

// file writes a file for a command.
func (o *operator) file(content string) string {
	o.t.Helper()
	path := filepath.Join(o.t.TempDir(), "file.txt")
	must(o.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// fault is the error that a front end returns for a mistake.
type fault struct{ code, field string }

// problem returns the fault in an answer of REST, and its text without the field; for
// a confirmation, the reason for it.
func (a *answer) problem() (fault, string) {
	a.t.Helper()
	var p struct {
		Code, Field, Detail string
		Reason              string `json:"confirm_reason"`
	}
	must(a.t, json.Unmarshal([]byte(a.body), &p))
	return fault{p.Code, p.Field}, cmp.Or(p.Reason, strings.TrimPrefix(p.Detail, p.Field+": "))
}

// changeByREST makes a change by REST, and returns the text of its fault.
func (o *operator) changeByREST(c *change) string {
	o.t.Helper()
	a := o.ask(c.rest)
	if c.want == (fault{}) {
		if a.status >= 300 {
			o.t.Fatalf("got %d %s", a.status, a.body)
		}
		return ""
	}
	got, detail := a.problem()
	if got != c.want {
		o.t.Fatalf("got the fault %+v, want %+v: %s", got, c.want, a.body)
	}
	return detail
}

// statuses are the HTTP statuses with which the pages may show a fault. A form that asks
// for a confirmation is shown as a page of its own, or again as invalid.
var statuses = map[string][]int{
	"invalid": {422}, "not_found": {404}, "conflict": {409}, "confirmation_required": {422, 409, 200}, "precondition_failed": {412},
	"malformed": {400, 422}, "precondition_required": {422, 428},
}

// changeByPage makes a change by a page, which must show a fault by the sentence.
func (o *operator) changeByPage(c *change, sentence string) {
	o.t.Helper()
	a := c.page(o)
	if c.want == (fault{}) {
		if a.status >= 400 {
			o.t.Errorf("got %d %s", a.status, pageText(a.body))
		}
		return
	}
	if location := a.header.Get("Location"); c.want.code == "confirmation_required" && a.status == http.StatusSeeOther {
		a = o.page(location) // the form that asks
		a.status = http.StatusConflict
	}
	field, isShown := faultField(a.body, sentence)
	if c.want.code == "precondition_failed" {
		field, isShown = "", true // it shows the other's version instead
	}
	switch {
	case !slices.Contains(statuses[c.want.code], a.status):
		o.t.Errorf("got %d for %s: %s", a.status, c.want.code, pageText(a.body))
	case !isShown:
		o.t.Errorf("%q is missing: %s", sentence, pageText(a.body))
	case field != "" && c.words[byPage] == "" && field != fieldOf(c.want.field) && field != c.want.field && !marksInvalid(a.body, c.want.field):
		o.t.Errorf("shows %q at the field %s, want %s", sentence, field, c.want.field)
	}
}

// fieldOf returns the field of a form of a field of the API: of an element, the list.
func fieldOf(field string) string {
	field, _, _ = strings.Cut(field, "[")
	return strings.Replace(field, "expires_in", "expires_at", 1)
}

// codes are the exit codes of the commands for faults; the others have console.Failed.
var codes = map[string]console.Code{
	"": console.OK, "confirmation_required": console.Unconfirmed, "not_found": console.NotFound, "invalid": console.Usage,
}

// changeByCommand makes a change by a command, which must print a fault with the sentence.
func (o *operator) changeByCommand(c *change, sentence string) {
	o.t.Helper()
	code, printed := o.run(c.command)
	want, known := codes[c.want.code]
	if !known {
		want = console.Failed
	}
	if c.exit != console.OK {
		want = c.exit
	}
	switch {
	case code != want:
		o.t.Errorf("got exit code %d, want %d: %s", code, want, printed)
	case c.want != (fault{}) && !containsSentence(printed, sentence):
		o.t.Errorf("%q is missing: %s", sentence, printed)
	case c.want.field != "" && c.want.code != "confirmation_required" && c.words[byCommand] == "" && !strings.Contains(printed, c.want.field):
		o.t.Errorf("the field %s is missing: %s", c.want.field, printed)
	}
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

var instants = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z| UTC)`)

// containsSentence reports whether a text contains a sentence, which may begin with a capital.
// Instants in them may differ.
func containsSentence(text, sentence string) bool {
	text, sentence = instants.ReplaceAllString(text, "T"), instants.ReplaceAllString(sentence, "T")
	sentence = strings.Join(strings.Fields(sentence), " ")
	return sentence != "" && (strings.Contains(text, sentence) || strings.Contains(text, strings.ToUpper(sentence[:1])+sentence[1:]))
}
