package httpserver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// The logs of login attempts. Their ids are negative; those of policies are positive.
const (
	logTokens int64 = -1 - iota
	logAddresses
	logPairs
	logAccounts
	logKnown
	logCallbacks
	logFlows
	logCodes
	logCodeAccounts
	logKnownCodes
	logNetworks
)

func stack(texts ...string) rules.Stack {
	s, err := rules.ParseStack(texts)
	if err != nil {
		panic(err) // the texts are constants below
	}
	return s
}

// The limits before a guesser has to wait.
var (
	tokenStack   = stack("20/m", "200/h") // invalid tokens from one address
	addressStack = stack("20/m", "100/h") // logins from one address with any account
	networkStack = stack("60/m", "600/h") // logins from one IPv6 /48 with any account: its owner has 65,536 addresses for addressStack
	pairStack    = stack("5/m", "30/h")   // logins with one account from one address
	accountStack = stack("30/m", "300/h") // logins with one account from any address
	knownStack   = stack("10/m")          // logins with one account from an address where it has logged in before
	flowStack    = stack("1/15m")         // one login with an OpenID provider, which has expired before the limit ends
	// Codes have only six digits, so a month of guesses must stay few. These limits apply in
	// addition to those of logins, since a code also counts as a login.
	codeStack        = stack("10/10m", "50/d") // codes for one account from one address
	codeAccountStack = stack("100/d")          // codes for one account from any new address
)

const (
	// buckets is the number of logs of each kind, except for known pairs. Callers choose
	// addresses and account names, so these share the logs, and no number of names uses more
	// memory.
	buckets = 1 << 14
	// throttleTimeout bounds the call of the shared log for one attempt.
	throttleTimeout = time.Second
)

// ThrottleOptions are the dependencies of a Throttle.
type ThrottleOptions struct {
	// Shared is the log that all nodes count in.
	Shared timestamplog.Log
	// Local also counts every attempt, and decides while Shared is unreachable. It is nil if
	// Shared is this node's memory.
	Local timestamplog.Log
	// Secret is the key of the hash that assigns callers to buckets, the same on all nodes; nil
	// for none.
	Secret func() []byte
	// Known reports whether a user has recently logged in from an address.
	Known func(user string, address identity.KnownAddress) bool
}

// Throttle limits the guessing of passwords, codes and tokens on all nodes together. It uses
// Stint's own limiter.
//
// Nobody can lock somebody else out. A valid token always passes. A limit by address affects
// only that address. An address from which an account has logged in before has a separate limit
// for that account; attempts from other addresses do not count against it, not even those from
// the same IPv6 /64. A new address in a /64 from which the account has logged in shares the
// limit of that /64. A Throttle is safe for concurrent use.
type Throttle struct{ o ThrottleOptions }

// NewThrottle returns a Throttle.
func NewThrottle(o ThrottleOptions) *Throttle {
	if o.Secret == nil {
		o.Secret = func() []byte { return nil }
	}
	if o.Known == nil {
		o.Known = func(string, identity.KnownAddress) bool { return false }
	}
	return &Throttle{o}
}

// limit is one log and the rules that apply to it.
type limit struct {
	policy int64
	key    string
	rules  rules.Stack
}

func (l limit) ref() timestamplog.LogID { return timestamplog.LogID{Policy: l.policy, Key: l.key} }

func (l limit) request() timestamplog.Request {
	return timestamplog.Request{LogID: l.ref(), Version: 1, Rules: l.rules, Retention: rules.Retention{}.Cover(l.rules), Cost: 1}
}

// bucketed returns the limit for what texts identify. Several texts may share its log.
func (t *Throttle) bucketed(policy int64, s rules.Stack, texts ...string) limit {
	sum := hmac.New(sha256.New, t.o.Secret())
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(policy))) //nolint:gosec // only its bits count
	for _, text := range texts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		sum.Write([]byte(text))
	}
	n := binary.BigEndian.Uint32(sum.Sum(nil)) % buckets
	return limit{policy, "throttle:" + strconv.FormatUint(uint64(n), 10), s}
}

// limits returns the limits that a login attempt has to pass, in the order of counting. A limit
// that refuses ends the counting.
func (t *Throttle) limits(from netip.Addr, account string) []limit {
	if address, known := t.knownAddress(from, account); known {
		return []limit{t.known(address, account)}
	}
	address := identity.KnownAddressOf(from)
	all := []limit{
		t.bucketed(logAddresses, addressStack, string(address)),
		t.bucketed(logPairs, pairStack, string(address), account),
	}
	if network, err := from.Unmap().Prefix(48); err == nil && from.Unmap().Is6() {
		all = append(all, t.bucketed(logNetworks, networkStack, network.String()))
	}
	if !from.IsLoopback() {
		all = append(all, t.bucketed(logAccounts, accountStack, account))
	}
	return all
}

// knownAddress returns the known address of an account that covers from.
func (t *Throttle) knownAddress(from netip.Addr, account string) (identity.KnownAddress, bool) {
	for _, address := range identity.KnownAddressesOf(from) {
		if t.o.Known(account, address) {
			return address, true
		}
	}
	return "", false
}

// IsStranger reports whether the account has not recently logged in from the address. It is
// false for addresses of this machine.
func (t *Throttle) IsStranger(from netip.Addr, account string) bool {
	_, known := t.knownAddress(from, account)
	return !known && !from.IsLoopback()
}

// codeLimits returns the limits that a code has to pass in addition to limits.
func (t *Throttle) codeLimits(from netip.Addr, account string) []limit {
	if address, known := t.knownAddress(from, account); known {
		return []limit{t.knownCodes(address, account)}
	}
	all := []limit{t.bucketed(logCodes, codeStack, string(identity.KnownAddressOf(from)), account)}
	if !from.IsLoopback() {
		all = append(all, t.bucketed(logCodeAccounts, codeAccountStack, account))
	}
	return all
}

func (t *Throttle) knownCodes(address identity.KnownAddress, account string) limit {
	return limit{logKnownCodes, string(address) + " " + account, codeStack}
}

// known returns the limit of a known pair of address and account. There are few such pairs, so
// each has its own log.
func (t *Throttle) known(address identity.KnownAddress, account string) limit {
	return limit{logKnown, string(address) + " " + account, knownStack}
}

// BadToken counts an invalid token and returns how long its sender must wait, 0 if the next
// attempt is allowed.
func (t *Throttle) BadToken(ctx context.Context, from netip.Addr) time.Duration {
	l := t.bucketed(logTokens, tokenStack, string(identity.KnownAddressOf(from)))
	// The counts of this node are part of the counts of all nodes. Asking this node first
	// bounds the calls of the shared log in a flood to the limit.
	if t.o.Local != nil {
		if r := decide(ctx, t.o.Local, l.request()); r.Err == nil && !r.Allowed {
			return waitOf(r)
		}
		if r := t.decideShared(ctx, l.request()); r.Err == nil {
			return waitOf(r)
		}
		return 0
	}
	return waitOf(t.decide(ctx, l.request()))
}

// Login counts a login attempt, before the password is checked. It returns how long the caller
// must wait, 0 to go on.
func (t *Throttle) Login(ctx context.Context, from netip.Addr, account string) time.Duration {
	return t.count(ctx, t.limits(from, account))
}

// Code counts a code given as the second factor of an account, before the code is checked. It
// returns how long the caller must wait, 0 to go on. A code also counts as a login attempt.
func (t *Throttle) Code(ctx context.Context, from netip.Addr, account string) time.Duration {
	return t.count(ctx, append(t.limits(from, account), t.codeLimits(from, account)...))
}

func (t *Throttle) count(ctx context.Context, limits []limit) time.Duration {
	for _, l := range limits {
		if wait := waitOf(t.decide(ctx, l.request())); wait > 0 {
			return wait
		}
	}
	return 0
}

// LoginsLeft returns how many more login attempts with an account are allowed from an address
// before the caller has to wait. It counts nothing, and ignores attempts from other addresses.
func (t *Throttle) LoginsLeft(ctx context.Context, from netip.Addr, account string) int {
	least := accountStack.LargestLimit()
	for _, l := range t.limits(from, account) {
		if l.policy == logAccounts || l.policy == logNetworks {
			continue
		}
		request := l.request()
		request.Peek, request.Detail = true, true
		for _, state := range t.decide(ctx, request).States {
			least = min(least, state.Remaining)
		}
	}
	return least
}

// LoggedIn records that the last counted login succeeded. It resets the counts of the account
// from that address in all logs that are reachable. The count of the address with any account
// remains: otherwise a user could try the passwords of all others from there.
func (t *Throttle) LoggedIn(ctx context.Context, from netip.Addr, account string) {
	address := identity.KnownAddressOf(from)
	all := []limit{
		t.bucketed(logPairs, pairStack, string(address), account),
		t.bucketed(logCodes, codeStack, string(address), account),
	}
	for _, known := range identity.KnownAddressesOf(from) {
		all = append(all, t.known(known, account), t.knownCodes(known, account))
	}
	t.forget(ctx, all...)
}

// forget resets limits in all logs that are reachable.
func (t *Throttle) forget(ctx context.Context, all ...limit) {
	ctx, cancel := context.WithTimeout(ctx, throttleTimeout)
	defer cancel()
	for _, l := range all {
		for _, log := range []timestamplog.Log{t.o.Local, t.o.Shared} {
			if log != nil {
				_, _ = log.Reset(ctx, l.ref()) // on an error the counts expire with time
			}
		}
	}
}

func (t *Throttle) callbacks(from netip.Addr) limit {
	return t.bucketed(logCallbacks, addressStack, string(identity.KnownAddressOf(from)))
}

// Callback counts a response of an OpenID provider that belongs to a login in this browser,
// before the provider is asked. It returns how long the caller must wait, 0 to go on.
func (t *Throttle) Callback(ctx context.Context, from netip.Addr) time.Duration {
	return waitOf(t.decide(ctx, t.callbacks(from).request()))
}

// CallbackDone records that the last counted callback succeeded.
func (t *Throttle) CallbackDone(ctx context.Context, from netip.Addr) {
	t.forget(ctx, t.callbacks(from))
}

// FinishFlow reports whether a login with an OpenID provider is finished for the first time.
// Pass only a state that the provider has confirmed, since each state has its own log.
func (t *Throttle) FinishFlow(ctx context.Context, state string) bool {
	r := t.decide(ctx, limit{logFlows, "flow:" + state, flowStack}.request())
	return r.Err == nil && r.Allowed
}

// decide counts in both logs and returns the result of the shared one if that is reachable.
func (t *Throttle) decide(ctx context.Context, r timestamplog.Request) timestamplog.Result {
	if t.o.Local == nil {
		return t.decideShared(ctx, r)
	}
	local := decide(ctx, t.o.Local, r)
	if shared := t.decideShared(ctx, r); shared.Err == nil {
		return shared
	}
	return local
}

func (t *Throttle) decideShared(ctx context.Context, r timestamplog.Request) timestamplog.Result {
	ctx, cancel := context.WithTimeout(ctx, throttleTimeout)
	defer cancel()
	return decide(ctx, t.o.Shared, r)
}

func decide(ctx context.Context, log timestamplog.Log, r timestamplog.Request) timestamplog.Result {
	var results [1]timestamplog.Result
	log.Decide(ctx, []timestamplog.Request{r}, results[:])
	return results[0]
}

func waitOf(r timestamplog.Result) time.Duration {
	if r.Err != nil || r.Allowed {
		return 0
	}
	return time.Duration(r.RetryAt-r.Now) * time.Millisecond
}
