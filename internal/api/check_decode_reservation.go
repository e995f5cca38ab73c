package api

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

func readMaxWait(d *jsontext.Decoder) (time.Duration, error) {
	text, err := readText(d, "max_wait")
	if err != nil {
		return 0, err
	}
	wait, ok := maxWaitOf(text)
	if !ok {
		return 0, fault.Field("max_wait", `must be a length of time from 1ms to %s in whole units, for example "5s" or "500ms"; leave it out to be answered at once`, wire.MaxWait)
	}
	return wait, nil
}

func maxWaitOf(text string) (time.Duration, bool) {
	wait, err := wire.ParseDuration(text)
	return wait, err == nil && wait > 0 && wait <= wire.MaxWait.Std()
}

func readIdempotencyKey(d *jsontext.Decoder) (string, error) {
	text, err := readFilled(d, "idempotency_key")
	if err != nil {
		return "", err
	}
	if len(text) > wire.MaxID {
		return "", fault.Field("idempotency_key", "has %d characters; at most %d are allowed", len(text), wire.MaxID)
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return "", fault.Field("idempotency_key", "must be printable ASCII; another character stands at byte %d", i)
		}
	}
	return text, nil
}

// readKeys reads the keys that are asked about as one.
func readKeys(d *jsontext.Decoder) ([]keyInput, error) {
	if kind := d.PeekKind(); kind != '[' {
		return nil, fault.Field("keys", "must be a list, not %s", kind)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var all []keyInput
	for d.PeekKind() != ']' {
		if len(all) == wire.MaxKeys {
			return nil, fault.Field("keys", "holds more than %d keys", wire.MaxKeys)
		}
		in, err := readKey(d, fmt.Sprintf("keys[%d]", len(all)))
		if err != nil {
			return nil, err
		}
		all = append(all, in)
	}
	if len(all) == 0 {
		return nil, fault.Field("keys", "holds no key; send 1 to %d", wire.MaxKeys)
	}
	_, err := d.ReadToken()
	return all, err
}

// readKey reads a key by itself, or with its policy and cost.
func readKey(d *jsontext.Decoder, field string) (in keyInput, err error) {
	in.Cost = 1
	switch kind := d.PeekKind(); kind {
	case '"':
		in.Key, err = readText(d, field)
		return in, err
	case '{':
	default:
		return in, fault.Field(field, `must be a key or an object such as {"key":"ip:203.0.113.7","cost":2}, not %s`, kind)
	}
	text, err := d.ReadValue()
	if err != nil {
		return in, err
	}
	given := false
	err = object(text, field, func(d *jsontext.Decoder, name string) (err error) {
		within := field + "." + escape.Log(name)
		switch name {
		case "key":
			given = true
			in.Key, err = readText(d, within)
		case "policy":
			in.Policy, err = readFilled(d, within)
		case "cost":
			in.Cost, err = readCost(d, within)
		default:
			err = fault.Field(within, "is not a field here; the fields are key, policy, cost")
		}
		return err
	})
	if err == nil && !given {
		err = fault.Field(field+".key", "is missing; send for example \"ip:203.0.113.7\"")
	}
	return in, err
}

// besideKeys refuses what stands beside keys and is each key's own.
func besideKeys(seen int) error {
	switch {
	case seen&sawKey != 0:
		return fault.Field("keys", "stands beside key; send one of the two")
	case seen&sawPolicy != 0:
		return fault.Field("policy", "stands beside keys; send it with each key, as {\"key\":...,\"policy\":...}")
	case seen&sawCost != 0:
		return fault.Field("cost", "stands beside keys; send it with each key, as {\"key\":...,\"cost\":...}")
	}
	return nil
}
