package wire

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PathReservations is the path of what is declared here.
const PathReservations = "/v1/reservations"

// Waiting is the part of an answer about the caller's reservation.
type Waiting struct {
	// DelayMS is how long to wait before the request is done; 0 if it may be
	// done at once or is refused. A peek says what it would be.
	DelayMS int64 `json:"delay_ms"`
	// Reservation is null if nothing was reserved: the request was allowed at once and is not
	// cancellable, refused, a peek, or answered under an outage.
	Reservation *Reservation `json:"reservation"`
}

// Reservation is an instant that was reserved.
type Reservation struct {
	At Time `json:"at"` // when the request may be done
	// Handle cancels it by DELETE /v1/reservations/{handle}, also after its time if the check was
	// cancellable. It has at most 15,811 characters, for one key of usual length about 120.
	Handle string `json:"handle"`
}

// Cancelled is the answer to cancelling a reservation or a charge.
type Cancelled struct {
	// Freed says that other requests may come earlier now: false where its time
	// has come and it is no cancellable charge that still counts, it was cancelled before, as by a request whose answer was lost, or others were
	// reserved behind it in a way that its algorithm cannot undo.
	Freed bool `json:"freed"`
}

// KeysRequest asks whether one request may be done that several keys must all
// allow. It is sent in place of a CheckRequest.
type KeysRequest struct {
	// Keys are 1 to MaxKeys, no two of them the same under the same policy.
	Keys   []KeyPart `json:"keys"`
	Peek   bool      `json:"peek,omitzero"` // answer and charge nothing
	Detail string    `json:"detail,omitzero" enum:"rules,none"`
	Source string    `json:"source,omitzero"`
	// Meta and what follows are as in a CheckRequest: Charge, MaxWait, Cancellable, Hold and IdempotencyKey.
	Meta           map[string]string `json:"meta,omitzero"`
	Request        RequestAttributes `json:"request,omitzero"` // the attributes of the request, for policies with conditions
	Values         map[string]string `json:"values,omitzero"`  // as in a CheckRequest
	MaxWait        Duration          `json:"max_wait,omitzero"`
	Cancellable    bool              `json:"cancellable,omitzero"`
	Hold           Duration          `json:"hold,omitzero"`
	Charge         string            `json:"charge,omitzero" enum:"always"`
	IdempotencyKey string            `json:"idempotency_key,omitzero"`
}

// KeyPart is one key of several. On the wire it may be the key alone.
type KeyPart struct {
	Key    string `json:"key"`
	Policy string `json:"policy,omitzero"` // by name; the best match if omitted
	Cost   int    `json:"cost,omitzero"`   // as in a CheckRequest
}

// MarshalJSON writes the key alone where the rest is zero.
func (p KeyPart) MarshalJSON() ([]byte, error) {
	if p.Policy == "" && p.Cost == 0 {
		return json.Marshal(p.Key)
	}
	type plain KeyPart
	return json.Marshal(plain(p))
}

// UnmarshalJSON reads a key or an object.
func (p *KeyPart) UnmarshalJSON(text []byte) error {
	*p = KeyPart{}
	if jsontext.Value(text).Kind() == '"' {
		return json.Unmarshal(text, &p.Key)
	}
	type plain KeyPart
	return json.Unmarshal(text, (*plain)(p), json.RejectUnknownMembers(true))
}

// KeysDecision answers a KeysRequest. If it is not allowed, nothing was charged
// to any key.
type KeysDecision struct {
	// ID opens the record of the first part that refuses; null if none does.
	ID NullString `json:"id"`
	// Decision is the most severe of the parts, in the order blocked, unavailable, limited,
	// allowed.
	Decision string `json:"decision" enum:"allowed,limited,blocked,unavailable"`
	Allowed  bool   `json:"allowed"`  // whether the request may be done
	Degraded bool   `json:"degraded"` // whether an outage limited what could be decided
	// DegradedReason is omitted unless Degraded is true.
	DegradedReason string `json:"degraded_reason,omitzero"`
	// RetryAfterMS and RetryAt are the latest of the parts that refuse.
	RetryAfterMS *int64 `json:"retry_after_ms"`
	RetryAt      Time   `json:"retry_at"`
	// Waiting is omitted unless a max_wait was sent, or cancellable.
	*Waiting
	// Hold is what all keys hold together, omitted if they hold nothing.
	Hold     *Hold `json:"hold,omitzero"`
	Replayed bool  `json:"replayed,omitzero"` // the idempotency_key was charged before
	// Decisions are those about each key, in the order of the keys. The reservation
	// is one for all keys.
	Decisions []Decision `json:"decisions"`
}
