package api

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// checkInput is a check as it was sent. Its cost is 1 where none was sent.
type checkInput struct {
	Key    string
	Policy string
	Cost   int
	Peek   bool
	Detail string
	Source string
	Meta   map[string]string

	MaxWait        time.Duration
	IdempotencyKey string
	// Keys are those that stand in place of Key, nil where none do.
	Keys []keyInput
}

// keyInput is one key of several, as it was sent. Its cost is 1 where none was
// sent.
type keyInput struct {
	Key    string
	Policy string
	Cost   int
}

// decodeCheck reads the body of one check. What clients usually send is read
// by fastReader; everything else goes the strict way, which also explains.
func decodeCheck(body []byte) (checkInput, error) {
	var in checkInput
	fast := fastReader{text: body}
	if fast.check(&in) && fast.end() {
		return in, nil
	}
	if err := checkSyntax(body); err != nil {
		return checkInput{}, err
	}
	return readCheck(body)
}

// decodeBatch reads the body of a batch and appends its checks and, in the
// place of each that is wrong, what is wrong with it.
func decodeBatch(body []byte, inputs []checkInput, problems []error) ([]checkInput, []error, error) {
	fast := fastReader{text: body}
	if found, ok := fast.batch(inputs); ok {
		return found, append(problems, make([]error, len(found))...), nil
	}
	if err := checkSyntax(body); err != nil {
		return inputs, problems, err
	}
	return readBatch(body, inputs, problems)
}

// checkSyntax refuses a body that is not one JSON value, that holds a name
// twice, or that is not UTF-8.
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
		return fault.New(fault.Malformed, "The body goes on after its JSON object, at byte %d.", d.InputOffset())
	}
	return httpserver.ExplainJSON(err, nil)
}

// object walks the members of an object whose syntax is known to be right.
func object(text []byte, whole string, member func(d *jsontext.Decoder, name string) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if kind := d.PeekKind(); kind != '{' {
		return fault.New(fault.Invalid, "%s must be a JSON object, not %s.", whole, kind)
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

func readBatch(body []byte, inputs []checkInput, problems []error) ([]checkInput, []error, error) {
	given := false
	err := object(body, "The body", func(d *jsontext.Decoder, name string) error {
		if name != "checks" {
			return fault.Field(escape.Log(name), "is not a field here; the only field is checks")
		}
		given = true
		if kind := d.PeekKind(); kind != '[' {
			return fault.Field("checks", "must be a list, not %s", kind)
		}
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		for d.PeekKind() != ']' {
			text, err := d.ReadValue()
			if err != nil {
				return err
			}
			if len(inputs) == wire.MaxBatch {
				return fault.Field("checks", "holds more than %d checks; send them in several batches", wire.MaxBatch)
			}
			in, err := readCheck(text)
			if err == nil && in.Keys != nil {
				in, err = checkInput{}, fault.Field("keys", "are not taken in a batch; send them in a check of their own")
			}
			inputs, problems = append(inputs, in), append(problems, err)
		}
		_, err := d.ReadToken()
		return err
	})
	if err == nil && (!given || len(inputs) == 0) {
		err = fault.Field("checks", "holds no check; send 1 to %d", wire.MaxBatch)
	}
	return inputs, problems, err
}

const checkFields = "key, policy, cost, peek, detail, source, meta, max_wait, idempotency_key, keys"

// readCheck reads one check whose syntax is known to be right.
func readCheck(text []byte) (checkInput, error) {
	in := checkInput{Cost: 1}
	seen := 0
	err := object(text, "A check", func(d *jsontext.Decoder, name string) (err error) {
		switch name {
		case "key":
			seen |= sawKey
			in.Key, err = readText(d, name)
		case "policy":
			seen |= sawPolicy
			in.Policy, err = readFilled(d, name)
		case "cost":
			seen |= sawCost
			in.Cost, err = readCost(d, name)
		case "keys":
			in.Keys, err = readKeys(d)
		case "max_wait":
			in.MaxWait, err = readMaxWait(d)
		case "idempotency_key":
			in.IdempotencyKey, err = readIdempotencyKey(d)
		case "peek":
			in.Peek, err = readBool(d, name)
		case "detail":
			in.Detail, err = readFilled(d, name)
		case "source":
			in.Source, err = readText(d, name)
		case "meta":
			in.Meta, err = readMeta(d)
		default:
			err = fault.Field(escape.Log(name), "is not a field here; the fields are %s", checkFields)
		}
		return err
	})
	switch {
	case err != nil:
	case in.Keys != nil:
		err = besideKeys(seen)
	case seen&sawKey == 0:
		err = fault.Field("key", "is missing; send for example \"ip:203.0.113.7\"")
	}
	if err != nil {
		return checkInput{}, err
	}
	return in, nil
}

func readText(d *jsontext.Decoder, field string) (string, error) {
	if kind := d.PeekKind(); kind != '"' {
		return "", fault.Field(field, "must be a text, not %s", kind)
	}
	token, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

func readFilled(d *jsontext.Decoder, field string) (string, error) {
	text, err := readText(d, field)
	if err == nil && text == "" {
		err = fault.Field(field, "is empty; leave it out instead")
	}
	return text, err
}

func readBool(d *jsontext.Decoder, field string) (bool, error) {
	kind := d.PeekKind()
	if kind != 't' && kind != 'f' {
		return false, fault.Field(field, "must be true or false, not %s", kind)
	}
	_, err := d.ReadToken()
	return kind == 't' && err == nil, err
}

func readCost(d *jsontext.Decoder, field string) (int, error) {
	kind := d.PeekKind()
	if kind != '0' {
		return 0, fault.Field(field, "must be a whole number from 1 to %d, not %s", wire.MaxCost, kind)
	}
	text, err := d.ReadValue()
	if err != nil {
		return 0, err
	}
	cost, err := strconv.Atoi(string(text))
	if err != nil || cost < 1 || cost > wire.MaxCost {
		return 0, fault.Field(field, "must be a whole number from 1 to %d, in digits only", wire.MaxCost)
	}
	return cost, nil
}

func readMeta(d *jsontext.Decoder) (map[string]string, error) {
	if kind := d.PeekKind(); kind != '{' {
		return nil, fault.Field("meta", "must be an object of texts, not %s", kind)
	}
	text, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	meta := map[string]string{}
	err = object(text, "meta", func(d *jsontext.Decoder, name string) error {
		if len(meta) == wire.MaxMeta {
			return fault.Field("meta", "holds more than %d entries", wire.MaxMeta)
		}
		value, err := readText(d, "meta."+escape.Log(name))
		meta[name] = value
		return err
	})
	return meta, err
}

// checkOf checks the values of a check and returns what the gate is asked.
func checkOf(parser keys.Parser, in *checkInput, detail string) (gate.Check, error) {
	key, err := parser.Key(in.Key)
	if err != nil {
		return gate.Check{}, fault.Field("key", "%s", strings.TrimPrefix(err.Error(), "the key "))
	}
	if in.Policy != "" {
		if err := rules.CheckName(in.Policy); err != nil {
			return gate.Check{}, fault.Field("policy", "%s", strings.TrimPrefix(err.Error(), "name "))
		}
	}
	if in.Detail != "" {
		detail = in.Detail
	}
	if detail != wire.DetailRules && detail != wire.DetailNone {
		return gate.Check{}, fault.Field("detail", "must be %s or %s", wire.DetailRules, wire.DetailNone)
	}
	if err := httpserver.CheckLine("source", in.Source, wire.MaxSource); err != nil {
		return gate.Check{}, err
	}
	for name, value := range in.Meta {
		if name == "" {
			return gate.Check{}, fault.Field("meta", "has an entry without a name")
		}
		if err := httpserver.CheckLine("meta", name, wire.MaxMetaName); err != nil {
			return gate.Check{}, err
		}
		if err := httpserver.CheckLine("meta."+name, value, wire.MaxMetaValue); err != nil {
			return gate.Check{}, err
		}
	}
	return gate.Check{
		Key: key, Policy: in.Policy, Cost: in.Cost, Peek: in.Peek,
		Detail: detail == wire.DetailRules, Source: in.Source, Meta: in.Meta,
		MaxWait: in.MaxWait, ID: in.IdempotencyKey,
	}, nil
}
