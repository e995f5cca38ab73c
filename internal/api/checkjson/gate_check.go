package checkjson

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// GateCheck validates the values of a check of one key. detail is used if c.Detail is empty. An
// error is a *fault.Error.
func (c *Check) GateCheck(parser keys.Parser, detail string) (gate.Check, error) {
	key, err := fault.ParseKey(parser, "key", c.Key)
	if err != nil {
		return gate.Check{}, err
	}
	if c.Policy != "" {
		if err := rules.CheckName(c.Policy); err != nil {
			return gate.Check{}, fault.Field("policy", "%s", strings.TrimPrefix(err.Error(), "name "))
		}
	}
	if c.Detail != "" {
		detail = c.Detail
	}
	if detail != wire.DetailRules && detail != wire.DetailNone {
		return gate.Check{}, fault.Field("detail", "must be %s or %s", wire.DetailRules, wire.DetailNone)
	}
	if err := fault.CheckLine("source", c.Source, wire.MaxSource); err != nil {
		return gate.Check{}, err
	}
	for name, value := range c.Meta {
		if name == "" {
			return gate.Check{}, fault.Field("meta", "has an entry without a name")
		}
		if err := fault.CheckLine("meta", name, wire.MaxMetaName); err != nil {
			return gate.Check{}, err
		}
		if err := fault.CheckLine("meta."+name, value, wire.MaxMetaValue); err != nil {
			return gate.Check{}, err
		}
	}
	request, err := gateRequest(&c.Request, c.Values)
	if err != nil {
		return gate.Check{}, err
	}
	return gate.Check{
		Key: key, Request: request, Policy: c.Policy, Cost: c.Cost, Peek: c.Peek,
		Detail: detail == wire.DetailRules, Source: c.Source, Meta: c.Meta,
		MaxWait: c.MaxWait, Cancellable: c.Cancellable, Hold: c.Hold, ID: c.IdempotencyKey, ChargeAlways: c.ChargeAlways,
	}, nil
}

// AppendGateChecks validates the values of a check of several keys and appends one
// check for each key. An error is a *fault.Error; its field names the key by index
// if the value belongs to one key.
func (c *Check) AppendGateChecks(checks []gate.Check, parser keys.Parser) ([]gate.Check, error) {
	for i, key := range c.Keys {
		single := *c
		single.Key, single.Policy, single.Cost = key.Key, key.Policy, key.Cost
		check, err := single.GateCheck(parser, wire.DetailRules)
		var mistake *fault.Error
		if errors.As(err, &mistake) && (mistake.Field == "key" || mistake.Field == "policy") {
			return nil, fault.Field(fmt.Sprintf("keys[%d].%s", i, mistake.Field), "%s", mistake.Message)
		}
		if err != nil {
			return nil, err
		}
		checks = append(checks, check)
	}
	return checks, nil
}
