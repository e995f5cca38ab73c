package httpserver

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"mime"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// maxDepth is the maximum nesting of the JSON of a request.
const maxDepth = 16

// RequireJSON refuses a request whose Content-Type is not JSON. It matters most for forms,
// whose body would be read as the empty key.
func (c *Call) RequireJSON() error {
	if coding := c.Request().Header.ContentEncoding(); len(coding) > 0 && !strings.EqualFold(string(coding), "identity") {
		return fault.New(fault.Unsupported, "Send the body as it is, without a Content-Encoding.")
	}
	given := c.Request().Header.ContentType()
	if string(given) == fiber.MIMEApplicationJSON {
		return nil
	}
	media, params, err := mime.ParseMediaType(string(given))
	charset, stated := params["charset"]
	if err != nil || media != fiber.MIMEApplicationJSON || stated && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.Unsupported, "Send the header Content-Type: application/json; the body must be JSON in UTF-8.")
	}
	return nil
}

// ReadBody returns the whole body of a request, which may have at most limit bytes.
func (c *Call) ReadBody(limit int) ([]byte, error) {
	body, err := ReadBody(c.Ctx.Context(), limit)
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, ErrAccessEnded):
		return nil, ErrAccessEnded
	case errors.Is(err, ErrBodyTooLarge):
		return nil, tooLarge(limit)
	case errors.Is(err, ErrBodyTimeout):
		return nil, fiber.ErrRequestTimeout
	case errors.Is(err, ErrBodiesFull):
		return nil, fault.New(fault.Unavailable, "Too many large requests are being read at the moment; send it again.")
	}
	return nil, fault.New(fault.Malformed, "The body ended early or could not be read.")
}

func tooLarge(limit int) error {
	return fault.New(fault.TooLarge, "The body has more than %d bytes.", limit)
}

// DecodeJSON decodes the body of an admin request into into, a pointer to a struct. It refuses
// unknown and duplicate members, values of the wrong type, and null for a field where null has
// no meaning.
func (c *Call) DecodeJSON(into any) error {
	if err := c.RequireJSON(); err != nil {
		return err
	}
	body, err := c.ReadBody(MaxBody)
	if err != nil {
		return err
	}
	return UnmarshalStrict(body, into)
}

// DecodeOptional is DecodeJSON for a request whose body may be missing.
func (c *Call) DecodeOptional(into any) error {
	body, err := c.ReadBody(MaxBody)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := c.RequireJSON(); err != nil {
		return err
	}
	return UnmarshalStrict(body, into)
}

// UnmarshalStrict is DecodeJSON for a body that is already read, with further options.
func UnmarshalStrict(body []byte, into any, options ...json.Options) error {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 {
		return fault.New(fault.Malformed, "The body is empty; send a JSON object.")
	}
	if err := CheckDepth(body); err != nil {
		return err
	}
	err := json.Unmarshal(body, into, append(options, json.RejectUnknownMembers(true))...)
	if err == nil && trimmed[0] != '{' { // the decoder accepts null for every type
		return fault.New(fault.Invalid, "The body must be a JSON object, got %s.", NameJSONKind(jsontext.Kind(trimmed[0])))
	}
	if err == nil {
		return refuseNull(body, reflect.TypeOf(into).Elem())
	}
	return ExplainJSON(err, body, reflect.TypeOf(into).Elem())
}

// refuseNull returns a fault for the first null in body at a field of t where null has no
// meaning. The decoder reads it as the zero value, but some programs write null for a field
// that they omit, which may mean something else.
func refuseNull(body []byte, t reflect.Type) error {
	if !bytes.Contains(body, []byte("null")) {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for d.PeekKind() != 0 { // ends, since the body was decoded before
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		if token.Kind() != 'n' {
			continue
		}
		of := t
		for token := range d.StackPointer().Tokens() {
			of = memberType(of, token)
		}
		if of != nil && !wire.TakesNull(of) {
			return fault.Field(fieldName(d.StackPointer()), "cannot be null; send a value, or leave it out")
		}
	}
	return nil
}

// CheckDepth refuses JSON that is nested deeper than maxDepth, so that no parser recurses
// deeply. It accepts text that is not JSON; the parser refuses that.
func CheckDepth(body []byte) error {
	depth, inText := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fault.New(fault.Malformed, "The body nests deeper than %d levels, at byte %d.", maxDepth, i)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// ExplainJSON converts the error of decoding body to a fault that says what is wrong, where, and
// what is allowed.
func ExplainJSON(err error, body []byte, target reflect.Type) error {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return explainSyntax(syntax, body)
	case !errors.As(err, &semantic):
		return &fault.Error{Code: fault.Malformed, Message: "The body cannot be read as JSON.", Err: err}
	}
	field := fieldName(semantic.JSONPointer)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		known := strings.Join(membersAt(target, semantic.JSONPointer), ", ")
		return fault.Field(field, "is not a field here; the fields are %s", known)
	case field == "":
		return fault.New(fault.Invalid, "The body must be a JSON object, got %s.", NameJSONKind(semantic.JSONKind))
	}
	return fault.Field(field, "must be %s", wanted(semantic))
}

// NameJSONKind returns the name of a kind of JSON value for messages.
func NameJSONKind(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return kind.String()
}

func explainSyntax(err *jsontext.SyntacticError, body []byte) error {
	read, rest := body[:min(int(err.ByteOffset), len(body))], body[min(int(err.ByteOffset), len(body)):]
	field := fieldName(err.JSONPointer)
	what := "The body is not valid JSON"
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &fault.Error{Code: fault.Malformed, Field: field, Message: "is sent twice; send it once", Err: err}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		what = "The body ends in the middle of its JSON"
	case startsBroken(rest):
		what = "The body is not valid UTF-8"
	case jsontext.Value(read).IsValid():
		what = "The body continues after its JSON object"
	}
	return &fault.Error{Code: fault.Malformed, Field: field, Message: fmt.Sprintf("%s, at byte %d.", what, err.ByteOffset), Err: err}
}

// startsBroken reports whether the first byte of text begins no character of UTF-8.
func startsBroken(text []byte) bool {
	char, size := utf8.DecodeRune(text)
	return char == utf8.RuneError && size == 1
}

// fieldName converts a JSON pointer to the notation of the documentation:
// "escalation.max_duration", "rules[2]".
func fieldName(pointer jsontext.Pointer) string {
	var b strings.Builder
	for token := range pointer.Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + escape.Log(token))
		default:
			b.WriteString(escape.Log(token))
		}
	}
	return b.String()
}

// wanted says what the value of a field with the wrong type should be.
func wanted(err *json.SemanticError) string {
	got := ", got " + NameJSONKind(err.JSONKind)
	if err.JSONKind == 0 {
		got = ""
	}
	switch {
	case err.Err == nil || !readsItself(err.GoType):
	case isText(err.GoType) && err.JSONKind != '"': // its own parser was not asked
		return "a string" + got
	default:
		return strings.TrimPrefix(err.Err.Error(), "must be ")
	}
	if err.GoType == nil {
		return "of another type" + got
	}
	switch kindOf(err.GoType) {
	case reflect.String:
		return "a string" + got
	case reflect.Bool:
		return "true or false" + got
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number" + got
	case reflect.Slice:
		return "a list" + got
	default:
		return "an object" + got
	}
}

// readsItself reports whether a type parses its own text. The errors of such a type say what is
// allowed.
func readsItself(t reflect.Type) bool {
	return t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// isText reports whether a type that parses its own text has no parser for other JSON than strings.
func isText(t reflect.Type) bool {
	return !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func kindOf(t reflect.Type) reflect.Kind {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind()
}

// membersAt returns the field names of the object that has no member for the pointer's last
// token.
func membersAt(t reflect.Type, pointer jsontext.Pointer) []string {
	for token := range pointer.Parent().Tokens() {
		t = memberType(t, token)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// memberType returns the type of a member of an object or of an element of a list of type t,
// nil if t has no such member.
func memberType(t reflect.Type, token string) reflect.Type {
	if t != nil {
		t = wire.ValueType(t)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
		return t.Elem()
	case t.Kind() != reflect.Struct:
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == token {
			return f.Type
		}
	}
	return nil
}

// SendJSON sends v as a JSON response.
func (c *Call) SendJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.Status(status)
	c.Response().SetBodyRaw(body)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	return nil
}
