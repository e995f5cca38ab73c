package v1

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Waiting is what an answer says of the caller's turn.
type Waiting struct {
	// WaitMS is how long to wait before the request is done; 0 where it may be
	// done at once, and where it was refused. A peek says what it would be.
	WaitMS int64 `json:"wait_ms"`
	// Turn is null where nothing was reserved: the request was allowed at once,
	// refused, a peek, or answered under an outage.
	Turn *Turn `json:"turn"`
}

// Turn is an instant that was reserved.
type Turn struct {
	At Time `json:"at"`
	// Handle gives it back by DELETE /v1/turns/{handle}. It has at most 12,483
	// characters, for one key of usual length about 120.
	Handle string `json:"handle"`
}

// GivenBack answers who gives a turn back.
type GivenBack struct {
	// MadeRoom says that others may come earlier for it: false where its time
	// has come, it was given back before, or others were reserved behind it in
	// a way that its algorithm cannot undo.
	MadeRoom bool `json:"made_room"`
}

// KeysRequest asks whether one request may be done that several keys must all
// allow. It is sent where a CheckRequest is.
type KeysRequest struct {
	// Keys are 1 to MaxKeys, no two of them the same under the same policy.
	Keys   []KeyPart `json:"keys"`
	Peek   bool      `json:"peek,omitzero"`
	Detail string    `json:"detail,omitzero"`
	Source string    `json:"source,omitzero"`
	// Meta is as in a CheckRequest, and so are the others.
	Meta           map[string]string `json:"meta,omitzero"`
	MaxWait        Duration          `json:"max_wait,omitzero"`
	IdempotencyKey string            `json:"idempotency_key,omitzero"`
}

// KeyPart is one key of several. On the wire it may be the key alone.
type KeyPart struct {
	Key    string `json:"key"`
	Policy string `json:"policy,omitzero"` // by name; the best match where it is left out
	Cost   int    `json:"cost,omitzero"`   // 1 to MaxCost; 1 where it is left out
}

// MarshalJSON writes the key alone where nothing else is said.
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

// KeysDecision answers a KeysRequest. Where it is not allowed nothing was charged
// to any key.
type KeysDecision struct {
	// ID opens the record of the first part that refuses; null where none does.
	ID NullString `json:"id"`
	// Decision is the gravest of the parts': blocked, unavailable, limited, and
	// allowed only where all are.
	Decision string `json:"decision"`
	Allowed  bool   `json:"allowed"`
	Degraded bool   `json:"degraded"`
	// DegradedReason stands only where Degraded is true.
	DegradedReason string `json:"degraded_reason,omitzero"`
	// RetryAfterMS and RetryAt are the latest of the parts that refuse.
	RetryAfterMS *int64 `json:"retry_after_ms"`
	RetryAt      Time   `json:"retry_at"`
	// Waiting stands only where a max_wait was sent.
	*Waiting
	Repeated bool `json:"repeated,omitzero"`
	// Parts are the decisions about each key, in the order of the keys. The turn
	// is the whole's.
	Parts []Decision `json:"parts"`
}
