package checkjson

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

func readMaxWait(d *jsontext.Decoder) (time.Duration, error) {
	text, err := readString(d, "max_wait")
	if err != nil {
		return 0, err
	}
	wait, ok := maxWaitOf(text)
	if !ok {
		return 0, fault.Field("max_wait", `must be a duration from 1ms to %s in whole units, for example "5s" or "500ms"; leave it out for no reservation`, wire.MaxWait)
	}
	return wait, nil
}

func maxWaitOf(text string) (time.Duration, bool) {
	wait, err := wire.ParseDuration(text)
	return wait, err == nil && wait > 0 && wait <= wire.MaxWait.Std()
}

func readHold(d *jsontext.Decoder) (time.Duration, error) {
	text, err := readString(d, "hold")
	if err != nil {
		return 0, err
	}
	hold, ok := holdOf(text)
	if !ok {
		return 0, fault.Field("hold", `must be a duration from 1s to %s in whole units, for example "10m" or "30s"; leave it out for what the policy says`, wire.MaxHold)
	}
	return hold, nil
}

// holdOf reads for how long a check holds its cost.
func holdOf(text string) (time.Duration, bool) {
	hold, err := wire.ParseDuration(text)
	return hold, err == nil && hold >= wire.MinHold.Std() && hold <= wire.MaxHold.Std()
}

func readCharge(d *jsontext.Decoder) (always bool, err error) {
	text, err := readString(d, "charge")
	if err == nil && text != wire.ChargeAlways {
		err = fault.Field("charge", "must be %s; leave it out to charge allowed checks only", wire.ChargeAlways)
	}
	return err == nil, err
}

// checkUsage returns an error for a member that is not allowed with ChargeAlways.
func (c *Check) checkUsage() error {
	if c.ChargeAlways && c.MaxWait > 0 {
		return fault.Field("charge", "cannot be combined with max_wait: usage that is reported after the fact cannot wait")
	}
	if c.ChargeAlways && c.Cancellable {
		return fault.Field("cancellable", "cannot be combined with charge: of usage that is reported after the fact only a part may be charged")
	}
	if c.Hold > 0 && c.MaxWait > 0 {
		return fault.Field("hold", "cannot be combined with max_wait: nothing is held for a time ahead")
	}
	if c.Hold > 0 && c.ChargeAlways {
		return fault.Field("hold", "cannot be combined with charge: usage that is reported after the fact is charged and not held")
	}
	return nil
}

func readIdempotencyKey(d *jsontext.Decoder) (string, error) {
	text, err := readNonEmpty(d, "idempotency_key")
	if err != nil {
		return "", err
	}
	return text, CheckID("idempotency_key", text)
}

// CheckID returns an error unless text is at most wire.MaxID printable ASCII characters.
func CheckID(field, text string) error {
	if len(text) > wire.MaxID {
		return fault.Field(field, "has %d characters; at most %d are allowed", len(text), wire.MaxID)
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return fault.Field(field, "must be printable ASCII; byte %d is not", i)
		}
	}
	return nil
}

// readKeys reads the list of a check of several keys.
func readKeys(d *jsontext.Decoder) ([]Key, error) {
	if kind := d.PeekKind(); kind != '[' {
		return nil, fault.Field("keys", "must be a list, got %s", httpserver.NameJSONKind(kind))
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var all []Key
	for d.PeekKind() != ']' {
		if len(all) == wire.MaxKeys {
			return nil, fault.Field("keys", "has more than %d keys", wire.MaxKeys)
		}
		in, err := readKey(d, fmt.Sprintf("keys[%d]", len(all)))
		if err != nil {
			return nil, err
		}
		all = append(all, in)
	}
	if len(all) == 0 {
		return nil, fault.Field("keys", "has no key; send 1 to %d", wire.MaxKeys)
	}
	_, err := d.ReadToken()
	return all, err
}

// readKey reads one key: a string, or an object with its policy and cost.
func readKey(d *jsontext.Decoder, field string) (in Key, err error) {
	switch kind := d.PeekKind(); kind {
	case '"':
		in.Key, err = readString(d, field)
		return in, err
	case '{':
	default:
		return in, fault.Field(field, `must be a key or an object such as {"key":"ip:203.0.113.7","cost":2}, got %s`, httpserver.NameJSONKind(kind))
	}
	text, err := d.ReadValue()
	if err != nil {
		return in, err
	}
	hasKeyField := false
	err = readObject(text, field, func(d *jsontext.Decoder, name string) (err error) {
		path := field + "." + escape.Log(name)
		switch name {
		case "key":
			hasKeyField = true
			in.Key, err = readString(d, path)
		case "policy":
			in.Policy, err = readNonEmpty(d, path)
		case "cost":
			in.Cost, err = readCost(d, path)
		default:
			err = fault.Field(path, "is not a field of a key; the fields are key, policy, cost")
		}
		return err
	})
	if err == nil && !hasKeyField {
		err = fault.Field(field+".key", "is missing; send for example \"ip:203.0.113.7\"")
	}
	return in, err
}

// checkNoSingleKeyFields returns an error if a field that belongs to each key is
// combined with keys.
func checkNoSingleKeyFields(seen fields) error {
	switch {
	case seen&hasKey != 0:
		return fault.Field("keys", "cannot be combined with key")
	case seen&hasPolicy != 0:
		return fault.Field("policy", "cannot be combined with keys; send it with each key, as {\"key\":...,\"policy\":...}")
	case seen&hasCost != 0:
		return fault.Field("cost", "cannot be combined with keys; send it with each key, as {\"key\":...,\"cost\":...}")
	}
	return nil
}
