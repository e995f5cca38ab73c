package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/wire"
)

// readKey reads ?key= and ?policy= of the routes about one key.
func (s *API) readKey(c *httpserver.Call) (keys.Key, string, error) {
	q := c.ParseQuery("key", "policy")
	if q.Err() == nil && !q.Given("key") {
		q.Fail("key", "is missing; send for example ?key=ip:203.0.113.7")
	}
	policy := q.Line("policy")
	if q.Given("policy") && policy == "" {
		q.Fail("policy", "is empty; leave it out instead")
	}
	if q.Err() != nil {
		return keys.Key{}, "", q.Err()
	}
	key, err := s.key(q.Raw("key"))
	return key, policy, err
}

func (s *API) explainKey(c *httpserver.Call) error {
	key, policy, err := s.readKey(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	x, err := s.Gate.Explain(ctx, key, policy)
	if err != nil {
		return err
	}
	out := fromExplanation(x, s.policyName)
	enforcing, shadow, err := s.Offenders.EscalationStatus(ctx, key)
	if err != nil {
		// The escalation needs the database, the verdict does not.
		out.Warnings = append(out.Warnings, "Where the key stands in the escalation is not known: the database is unreachable.")
	}
	out.Escalation, out.ShadowEscalation = fromEscalationStatus(enforcing), fromEscalationStatus(shadow)
	return c.SendJSON(http.StatusOK, out)
}

// resetKey forgets what a key has used, under one policy or all. The audit is
// written first: nothing is forgotten that nobody answers for.
func (s *API) resetKey(c *httpserver.Call) error {
	key, name, err := s.readKey(c)
	if err != nil {
		return err
	}
	policies, err := s.policiesToReset(name)
	if err != nil {
		return err
	}
	ctx := c.Context()
	scope := "all policies"
	if name != "" {
		scope = "the policy " + name
	}
	if err := s.Recorder.AddRecord(ctx, audit.Record{
		Actor: c.Actor(), Action: "key.reset", Object: "key", ObjectID: key.String(),
		Summary: "Reset what " + key.String() + " has used under " + scope,
	}); err != nil {
		return err
	}
	answer := wire.KeyReset{Key: key.String(), Policies: []wire.LogReset{}}
	for _, p := range policies {
		held, err := s.reset(ctx, timestamplog.LogIDOf(p, key.String()))
		if err != nil {
			return err
		}
		answer.Policies = append(answer.Policies, wire.LogReset{Policy: p.Name, Existed: held})
	}
	return c.SendJSON(http.StatusOK, answer)
}

func (s *API) policiesToReset(name string) ([]*rules.Policy, error) {
	selector := s.Catalog.Selector()
	if name == "" {
		all := selector.Policies()
		slices.SortFunc(all, func(a, b *rules.Policy) int { return strings.Compare(a.Name, b.Name) })
		return all, nil
	}
	p, found := selector.ByName(name)
	if !found {
		return nil, fault.Field("policy", "there is no policy of that name; leave it out to reset the key under all")
	}
	return []*rules.Policy{p}, nil
}

// reset forgets one log wherever it is kept.
func (s *API) reset(ctx context.Context, ref timestamplog.LogID) (held bool, err error) {
	for _, log := range s.Logs {
		had, err := log.Reset(ctx, ref)
		if errors.Is(err, timestamplog.ErrUnreachable) {
			return held, &fault.Error{Code: fault.Unavailable, Message: "The timestamp log is unreachable; the key may not be reset everywhere, so repeat it.", Err: err}
		}
		if err != nil {
			return held, err
		}
		held = held || had
	}
	return held, nil
}
