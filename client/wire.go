package client

import (
	"crypto/rand"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	pathCheck        = "/v1/check"
	pathBatch        = "/v1/check/batch"
	pathReservations = "/v1/reservations/"
)

// wireCheck is a check as it is sent.
type wireCheck struct {
	Key            string            `json:"key,omitzero"`
	Keys           []wireKey         `json:"keys,omitempty"` // in place of Key
	Policy         string            `json:"policy,omitzero"`
	Cost           int               `json:"cost,omitzero"`
	Charge         Charge            `json:"charge,omitzero"`
	Peek           bool              `json:"peek,omitzero"`
	Detail         Detail            `json:"detail,omitzero"`
	Source         string            `json:"source,omitzero"`
	Meta           map[string]string `json:"meta,omitempty"`
	Request        Request           `json:"request,omitzero"`
	Values         map[string]string `json:"values,omitempty"`
	MaxWait        string            `json:"max_wait,omitzero"`
	Cancellable    bool              `json:"cancellable,omitzero"`
	Hold           string            `json:"hold,omitzero"`
	IdempotencyKey string            `json:"idempotency_key,omitzero"`
	Pass           string            `json:"pass,omitzero"`
}

type wireKey struct {
	Key    string `json:"key"`
	Policy string `json:"policy,omitzero"`
	Cost   int    `json:"cost,omitzero"`
}

func (c *Client) wire(q *Check) *wireCheck {
	return &wireCheck{
		Key: q.Key, Policy: q.Policy, Cost: q.Cost, Charge: q.Charge, Peek: q.Peek, Detail: q.Detail, Source: c.sourceOr(q.Source), Meta: cutMeta(q.Meta),
		Request: q.Request.cut(), Values: cleanValues(q.Values), MaxWait: wireWait(q.MaxWait), Cancellable: q.Cancellable, Hold: wireHold(q.Hold), IdempotencyKey: c.idempotencyKey(q.IdempotencyKey, q.Peek), Pass: q.Pass,
	}
}

func (c *Client) wireCombined(q *CombinedCheck) *wireCheck {
	w := &wireCheck{
		Charge: q.Charge, Peek: q.Peek, Detail: q.Detail, Source: c.sourceOr(q.Source), Meta: cutMeta(q.Meta),
		Request: q.Request.cut(), Values: cleanValues(q.Values), MaxWait: wireWait(q.MaxWait), Cancellable: q.Cancellable, Hold: wireHold(q.Hold), IdempotencyKey: c.idempotencyKey(q.IdempotencyKey, q.Peek),
	}
	for _, k := range q.Keys {
		w.Keys = append(w.Keys, wireKey(k))
	}
	return w
}

func (c *Client) sourceOr(source string) string {
	if source == "" {
		return c.source
	}
	return source
}

// idempotencyKey returns the key by which the server charges a check once, however often it is
// sent; "" if it is sent once, or charges nothing.
func (c *Client) idempotencyKey(given string, peek bool) string {
	if given != "" || peek || c.retries == 0 {
		return given
	}
	return rand.Text()
}

func wireWait(d time.Duration) string {
	if d < time.Millisecond {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

// wireAnswer is what decisions have in common, as they are received. Its
// members that are null are at their zero, but for the wait that never ends.
type wireAnswer struct {
	ID           string           `json:"id"`
	Decision     Outcome          `json:"decision"`
	Allowed      bool             `json:"allowed"`
	Degraded     bool             `json:"degraded"`
	Reason       string           `json:"degraded_reason"`
	RetryAfterMS *int64           `json:"retry_after_ms"`
	RetryAt      time.Time        `json:"retry_at"`
	DelayMS      int64            `json:"delay_ms"`
	Reservation  *wireReservation `json:"reservation"`
	Replayed     bool             `json:"replayed"`
	Hold         *wireHeldCost    `json:"hold"`
	TooManyHolds bool             `json:"too_many_holds"`
}

type wireHeldCost struct {
	Handle      string    `json:"handle"`
	ExpiresAt   time.Time `json:"expires_at"`
	ExpiresInMS int64     `json:"expires_in_ms"`
}

type wireReservation struct {
	At     time.Time `json:"at"`
	Handle string    `json:"handle"`
}

// wireDecision is the answer to a check, or with Decisions to one about several keys.
type wireDecision struct {
	wireAnswer
	Key         string         `json:"key"`
	Policy      string         `json:"policy"`
	Mode        string         `json:"mode"`
	Conditional bool           `json:"conditional"`
	DerivedKey  string         `json:"derived_key"`
	Rule        string         `json:"rule"`
	Rules       []wireRule     `json:"rules"`
	Block       *wireBlock     `json:"block"`
	Shadow      *wireShadow    `json:"shadow"`
	Evidence    string         `json:"evidence"`
	Exemption   *wireExemption `json:"exemption"`
	Warnings    []string       `json:"warnings"`
	Challenge   string         `json:"challenge"`
	Decisions   []wireDecision `json:"decisions"`
}

type wireRule struct {
	Rule         string `json:"rule"`
	Limit        int    `json:"limit"`
	WindowMS     int64  `json:"window_ms"`
	Remaining    int    `json:"remaining"`
	RetryAfterMS *int64 `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
}

type wireBlock struct {
	ID        string    `json:"id"`
	Pattern   string    `json:"pattern"`
	Reason    string    `json:"reason"`
	Source    string    `json:"source"`
	ExpiresAt time.Time `json:"expires_at"`
}

type wireExemption struct {
	ID        string    `json:"id"`
	Pattern   string    `json:"pattern"`
	Reason    string    `json:"reason"`
	ExpiresAt time.Time `json:"expires_at"`
}

type wireShadow struct {
	wireAnswer
	Policy string     `json:"policy"`
	Rule   string     `json:"rule"`
	Rules  []wireRule `json:"rules"`
}

// statusOf is the status of the answer with each outcome.
var statusOf = map[Outcome]int{
	Allowed:     http.StatusOK,
	Limited:     http.StatusTooManyRequests,
	Blocked:     http.StatusForbidden,
	Unavailable: http.StatusServiceUnavailable,
}

// fits returns an error unless it is a decision that its status agrees with.
func (w *wireDecision) fits(status int) error {
	if want, known := statusOf[w.Decision]; !known || want != status || w.Allowed != (w.Decision == Allowed) {
		return fmt.Errorf("an answer with status %d that is no decision", status)
	}
	return nil
}

func (w *wireAnswer) answer() Answer {
	a := Answer{
		ID: w.ID, Outcome: w.Decision, Allowed: w.Allowed, Degraded: w.Degraded, DegradedReason: w.Reason,
		RetryAfter: wait(w.RetryAfterMS), RetryAt: w.RetryAt, Delay: milliseconds(w.DelayMS), Replayed: w.Replayed, TooManyHolds: w.TooManyHolds,
	}
	if w.Reservation != nil {
		a.Reservation = &Reservation{At: w.Reservation.At, Handle: w.Reservation.Handle}
	}
	if w.Hold != nil {
		a.Held = &HeldCost{Handle: w.Hold.Handle, ExpiresAt: w.Hold.ExpiresAt, length: milliseconds(w.Hold.ExpiresInMS)}
		if w.Hold.ExpiresInMS == 0 { // a version of Stint that does not say it
			a.Held.length = time.Until(w.Hold.ExpiresAt)
		}
	}
	return a
}

func (w *wireDecision) decision() *Decision {
	d := &Decision{
		Answer: w.answer(), Key: w.Key, Policy: w.Policy, Mode: w.Mode, Conditional: w.Conditional, DerivedKey: w.DerivedKey,
		Rule: w.Rule, Rules: states(w.Rules), Block: (*Block)(w.Block), Evidence: w.Evidence, Exemption: (*Exemption)(w.Exemption), Warnings: w.Warnings, Challenge: w.Challenge,
	}
	if d.Challenge != "" {
		d.Outcome = Challenged
	}
	if s := w.Shadow; s != nil {
		d.Shadow = &Shadow{Answer: s.answer(), Policy: s.Policy, Rule: s.Rule, Rules: states(s.Rules)}
	}
	return d
}

func states(rules []wireRule) []RuleState {
	if rules == nil {
		return nil
	}
	all := make([]RuleState, len(rules))
	for i, r := range rules {
		all[i] = RuleState{Rule: r.Rule, Limit: r.Limit, Window: milliseconds(r.WindowMS), Remaining: r.Remaining, RetryAfter: wait(r.RetryAfterMS),
			ResetAfter: milliseconds(r.ResetAfterMS)}
	}
	return all
}

// wait reads a wait that is null if it never ends.
func wait(ms *int64) time.Duration {
	if ms == nil {
		return Never
	}
	return milliseconds(*ms)
}

func milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// wireBatch is the answer to a batch.
type wireBatch struct {
	Decisions []jsontext.Value `json:"decisions"`
	asked     int
}

// fits returns an error unless there is an answer to each check.
func (w *wireBatch) fits(status int) error {
	if status != http.StatusOK || len(w.Decisions) != w.asked {
		return fmt.Errorf("an answer with status %d and %d decisions to a batch of %d", status, len(w.Decisions), w.asked)
	}
	return nil
}

// readItem reads a decision, which says "decision", or else the problem in its
// place. A decision inside a batch has no status of its own.
func readItem(text jsontext.Value) (*Decision, error) {
	var d wireDecision
	if err := json.Unmarshal(text, &d); err != nil || d.Decision == "" {
		p := new(Problem)
		if err := json.Unmarshal(text, p); err != nil || p.Status == 0 {
			return nil, errUnreadable
		}
		return nil, p
	}
	if err := d.fits(statusOf[d.Decision]); err != nil {
		return nil, err
	}
	return d.decision(), nil
}

// wireCancelled is the answer to the cancellation of a reservation.
type wireCancelled struct {
	Freed bool `json:"freed"`
}

// fits returns an error unless it was cancelled.
func (*wireCancelled) fits(status int) error {
	if status != http.StatusOK {
		return fmt.Errorf("an answer with status %d to the cancellation of a reservation", status)
	}
	return nil
}
