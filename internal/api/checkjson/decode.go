// Package checkjson reads checks from JSON and writes decisions to JSON. Every check uses both.
package checkjson

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// Check is a decoded check. Its strings are copies, so the body may be reused.
type Check struct {
	Key    string
	Policy string // "" selects the best match
	Cost   int    // 0 if the body has none
	Peek   bool
	Detail string // "" means the default
	Source string
	Meta   map[string]string
	// Request describes the client's request, for policies with conditions.
	Request wire.RequestAttributes
	// Values are further values of the request, by name.
	Values map[string]string

	ChargeAlways   bool
	MaxWait        time.Duration
	Cancellable    bool
	Hold           time.Duration // 0 if the body has none
	IdempotencyKey string
	Pass           string
	// Keys is nil in a check of one key. Otherwise Key, Policy and Cost are not set.
	Keys []Key
}

// Key is one key of a check of several keys.
type Key struct {
	Key    string
	Policy string // "" selects the best match
	Cost   int    // 0 if the body has none
}

// Decode reads the body of one check. An error is a *fault.Error. Decode checks the syntax, not
// the values: see Check.GateCheck.
//
// fastReader reads the common bodies; decodeStrict reads all others and explains what is wrong.
func Decode(body []byte) (Check, error) {
	var in Check
	if DecodeUsual(body, &in) {
		return in, nil
	}
	return decodeStrict(body)
}

// DecodeUsual reads a body in the common form into in, with the same result as Decode. It
// returns false for any other body.
func DecodeUsual(body []byte, in *Check) bool {
	fast := fastReader{text: body}
	return fast.check(in) && fast.end()
}

// decodeStrict is Decode without the fast path.
func decodeStrict(body []byte) (Check, error) {
	if err := checkSyntax(body); err != nil {
		return Check{}, err
	}
	return readCheck(body)
}

// DecodeBatch reads the body of a batch. It appends one element for each check to
// both slices: the check and its error, which is nil for a valid check. The third
// result is an error of the whole batch.
func DecodeBatch(body []byte, checks []Check, errs []error) ([]Check, []error, error) {
	fast := fastReader{text: body}
	if found, ok := fast.batch(checks); ok {
		return found, append(errs, make([]error, len(found))...), nil
	}
	return decodeBatchStrict(body, checks, errs)
}

// decodeBatchStrict is DecodeBatch without the fast path.
func decodeBatchStrict(body []byte, checks []Check, errs []error) ([]Check, []error, error) {
	if err := checkSyntax(body); err != nil {
		return checks, errs, err
	}
	return readBatch(body, checks, errs)
}

// checkSyntax returns an error if a body is not one JSON value, repeats a name in an
// object, or is not UTF-8.
func checkSyntax(body []byte) error {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return fault.New(fault.Malformed, "The body is empty; send a JSON object.")
	}
	if err := httpserver.CheckDepth(body); err != nil {
		return err
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	_, err := d.ReadValue()
	if err == nil {
		if _, err = d.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		}
	}
	if err == nil {
		return fault.New(fault.Malformed, "The body must be one JSON object, but more follows at byte %d.", d.InputOffset())
	}
	return httpserver.ExplainJSON(err, body, nil)
}

// readObject calls member for each member of an object whose syntax is valid. member must read
// the value. what is the name of the object in errors.
func readObject(text []byte, what string, member func(d *jsontext.Decoder, name string) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if kind := d.PeekKind(); kind != '{' {
		return fault.New(fault.Invalid, "%s must be a JSON object, got %s.", what, httpserver.NameJSONKind(kind))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := member(d, name.String()); err != nil {
			return err
		}
	}
	return nil
}

func readBatch(body []byte, checks []Check, errs []error) ([]Check, []error, error) {
	hasChecks := false
	err := readObject(body, "The body", func(d *jsontext.Decoder, name string) error {
		if name != "checks" {
			return fault.Field(escape.Log(name), "is not a field of a batch; the only field is checks")
		}
		hasChecks = true
		if kind := d.PeekKind(); kind != '[' {
			return fault.Field("checks", "must be a list, got %s", httpserver.NameJSONKind(kind))
		}
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		for d.PeekKind() != ']' {
			text, err := d.ReadValue()
			if err != nil {
				return err
			}
			if len(checks) == wire.MaxBatch {
				return fault.Field("checks", "has more than %d checks; send them in several batches", wire.MaxBatch)
			}
			in, err := readCheck(text)
			if err == nil && in.Keys != nil {
				in, err = Check{}, fault.Field("keys", "is not allowed in a batch; send several keys in a check of their own")
			}
			checks, errs = append(checks, in), append(errs, err)
		}
		_, err := d.ReadToken()
		return err
	})
	if err == nil && (!hasChecks || len(checks) == 0) {
		err = fault.Field("checks", "has no check; send 1 to %d", wire.MaxBatch)
	}
	return checks, errs, err
}

const checkFields = "key, policy, cost, charge, peek, detail, source, meta, request, values, max_wait, cancellable, hold, idempotency_key, pass, keys"

// readCheck reads one check whose syntax is valid.
func readCheck(text []byte) (Check, error) {
	in := Check{}
	seen := fields(0)
	err := readObject(text, "A check", func(d *jsontext.Decoder, name string) (err error) {
		switch name {
		case "key":
			seen |= hasKey
			in.Key, err = readString(d, name)
		case "policy":
			seen |= hasPolicy
			in.Policy, err = readNonEmpty(d, name)
		case "cost":
			seen |= hasCost
			in.Cost, err = readCost(d, name)
		case "keys":
			in.Keys, err = readKeys(d)
		case "max_wait":
			in.MaxWait, err = readMaxWait(d)
		case "cancellable":
			in.Cancellable, err = readBool(d, name)
		case "hold":
			in.Hold, err = readHold(d)
		case "charge":
			in.ChargeAlways, err = readCharge(d)
		case "idempotency_key":
			in.IdempotencyKey, err = readIdempotencyKey(d)
		case "pass":
			if in.Pass, err = readString(d, name); len(in.Pass) > wire.MaxPass {
				err = fault.Field(name, "must be at most %d bytes", wire.MaxPass)
			}
		case "peek":
			in.Peek, err = readBool(d, name)
		case "detail":
			in.Detail, err = readNonEmpty(d, name)
		case "source":
			in.Source, err = readString(d, name)
		case "meta":
			in.Meta, err = readTexts(d, name, wire.MaxMeta)
		case "request":
			err = readRequest(d, &in.Request)
		case "values":
			in.Values, err = readTexts(d, name, wire.MaxValues)
		default:
			err = fault.Field(escape.Log(name), "is not a field of a check; the fields are %s", checkFields)
		}
		return err
	})
	switch {
	case err != nil:
	case in.Keys != nil:
		if err = checkNoSingleKeyFields(seen); err == nil {
			err = in.checkUsage()
		}
	case seen&hasKey == 0:
		err = fault.Field("key", "is missing; send for example \"ip:203.0.113.7\"")
	default:
		err = in.checkUsage()
	}
	if err != nil {
		return Check{}, err
	}
	return in, nil
}

func readString(d *jsontext.Decoder, field string) (string, error) {
	if kind := d.PeekKind(); kind != '"' {
		return "", fault.Field(field, "must be a string, got %s", httpserver.NameJSONKind(kind))
	}
	token, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

func readNonEmpty(d *jsontext.Decoder, field string) (string, error) {
	text, err := readString(d, field)
	if err == nil && text == "" {
		err = fault.Field(field, "is empty; leave it out instead")
	}
	return text, err
}

func readBool(d *jsontext.Decoder, field string) (bool, error) {
	kind := d.PeekKind()
	if kind != 't' && kind != 'f' {
		return false, fault.Field(field, "must be true or false, got %s", httpserver.NameJSONKind(kind))
	}
	_, err := d.ReadToken()
	return kind == 't' && err == nil, err
}

func readCost(d *jsontext.Decoder, field string) (int, error) {
	kind := d.PeekKind()
	if kind != '0' {
		return 0, fault.Field(field, "must be a whole number from 1 to %d, got %s", wire.MaxAmount, httpserver.NameJSONKind(kind))
	}
	text, err := d.ReadValue()
	if err != nil {
		return 0, err
	}
	cost, err := strconv.Atoi(string(text))
	if err != nil || cost < 1 || cost > wire.MaxAmount {
		return 0, fault.Field(field, "must be a whole number from 1 to %d, in digits only", wire.MaxAmount)
	}
	return cost, nil
}

// readTexts reads an object of at most the given number of strings.
func readTexts(d *jsontext.Decoder, field string, most int) (map[string]string, error) {
	if kind := d.PeekKind(); kind != '{' {
		return nil, fault.Field(field, "must be an object of strings, got %s", httpserver.NameJSONKind(kind))
	}
	text, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	err = readObject(text, field, func(d *jsontext.Decoder, name string) error {
		if len(texts) == most {
			return fault.Field(field, "has more than %d entries", most)
		}
		value, err := readString(d, field+"."+escape.Log(name))
		texts[name] = value
		return err
	})
	return texts, err
}
