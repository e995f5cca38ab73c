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

// The logs of attempts stand beside those of policies, whose ids are positive.
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

// What is let through before a guesser has to wait.
var (
	tokenStack   = stack("20/m", "200/h") // bad tokens from one address
	addressStack = stack("20/m", "100/h") // logins from one address as anybody
	networkStack = stack("60/m", "600/h") // logins from one IPv6 /48 as anybody: who has one has 65,536 addresses for addressStack
	pairStack    = stack("5/m", "30/h")   // logins as one account from one address
	accountStack = stack("30/m", "300/h") // logins as one account from anywhere
	knownStack   = stack("10/m")          // logins as one account from where it has logged in before
	flowStack    = stack("1/15m")         // one login with an OpenID provider, which has ended by then
	// Codes have six digits and so few values that a month of guesses must stay few: these
	// hold beside those of logins, which the codes count against too.
	codeStack        = stack("10/10m", "50/d") // codes of one account from one address
	codeAccountStack = stack("100/d")          // codes of one account from anywhere new
)

const (
	// buckets is how many logs there are of each kind, but for known pairs:
	// addresses and accounts that callers choose share them, so that no number
	// of names costs more memory.
	buckets = 1 << 14
	// throttleTimeout bounds how long an attempt waits for the shared log.
	throttleTimeout = time.Second
)

// ThrottleOptions are what a Throttle needs.
type ThrottleOptions struct {
	// Shared is the log that all nodes count in.
	Shared timestamplog.Log
	// Local counts beside it, and decides while Shared cannot be reached; nil
	// where Shared is this node's memory.
	Local timestamplog.Log
	// Secret spreads callers over the buckets, the same on all nodes; nil for
	// none.
	Secret func() []byte
	// Known reports whether a user has logged in from an address lately.
	Known func(user string, address identity.KnownAddress) bool
}

// Throttle limits the guessing of passwords, codes and tokens with Stint's own
// limiter, over all nodes.
//
// Nobody can lock somebody else out: a good token always passes; what is counted
// by address hits only that address; and an address from which an account has
// logged in before has a limit of its own for that account, which attempts from
// elsewhere do not use up, not even those from other addresses of the same IPv6 /64. A
// new address of a /64 from which the account has logged in shares the limit of that
// /64. It is safe for use by many goroutines.
type Throttle struct{ o ThrottleOptions }

// NewThrottle returns a limiter.
func NewThrottle(o ThrottleOptions) *Throttle {
	if o.Secret == nil {
		o.Secret = func() []byte { return nil }
	}
	if o.Known == nil {
		o.Known = func(string, identity.KnownAddress) bool { return false }
	}
	return &Throttle{o}
}

// limit is one log and the rules that hold there.
type limit struct {
	policy int64
	key    string
	rules  rules.Stack
}

func (l limit) ref() timestamplog.LogID { return timestamplog.LogID{Policy: l.policy, Key: l.key} }

func (l limit) request() timestamplog.Request {
	return timestamplog.Request{LogID: l.ref(), Version: 1, Rules: l.rules, Retention: rules.Retention{}.Cover(l.rules), Cost: 1}
}

// bucketed returns the limit of whatever texts name, which shares its log with
// others.
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

// limits returns what an attempt to log in has to pass, in the order in which
// it is counted: one that is refused is not counted further on.
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

// knownAddress returns what an account is known by to have logged in from an address.
func (t *Throttle) knownAddress(from netip.Addr, account string) (identity.KnownAddress, bool) {
	for _, address := range identity.KnownAddressesOf(from) {
		if t.o.Known(account, address) {
			return address, true
		}
	}
	return "", false
}

// IsStranger reports whether an account has not logged in from an address lately, which is
// not one of this machine.
func (t *Throttle) IsStranger(from netip.Addr, account string) bool {
	_, known := t.knownAddress(from, account)
	return !known && !from.IsLoopback()
}

// codeLimits returns what a code has to pass beside limits.
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

// known is the limit of a known pair. There are few of them, so that each has
// a log of its own.
func (t *Throttle) known(address identity.KnownAddress, account string) limit {
	return limit{logKnown, string(address) + " " + account, knownStack}
}

// BadToken counts a token that was wrong and returns how long its sender must
// wait, 0 while the next guess is let through.
func (t *Throttle) BadToken(ctx context.Context, from netip.Addr) time.Duration {
	l := t.bucketed(logTokens, tokenStack, string(identity.KnownAddressOf(from)))
	// What this node has counted is a part of what all have: a flood costs the
	// shared log no more than the limit.
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

// Login counts an attempt to log in, before the password is looked at, and
// returns how long to wait instead, 0 to go on.
func (t *Throttle) Login(ctx context.Context, from netip.Addr, account string) time.Duration {
	return t.count(ctx, t.limits(from, account))
}

// Code counts a code that somebody gives as the second factor of an account, before it is
// looked at, and returns how long to wait instead, 0 to go on. It counts as an attempt to
// log in too.
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

// LoginsLeft returns how many more attempts to log in as account from an
// address are let through before its sender has to wait. It counts nothing, and
// leaves attempts from elsewhere out.
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

// LoggedIn says that the login that was counted last was a good one: what was counted
// against the account from that address is forgotten, as far as the logs can be reached. What
// was counted against the address as anybody stays: else a user could try the passwords of
// all others from there.
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

// forget resets limits as far as the logs can be reached.
func (t *Throttle) forget(ctx context.Context, all ...limit) {
	ctx, cancel := context.WithTimeout(ctx, throttleTimeout)
	defer cancel()
	for _, l := range all {
		for _, log := range []timestamplog.Log{t.o.Local, t.o.Shared} {
			if log != nil {
				_, _ = log.Reset(ctx, l.ref()) // else it is forgotten with time
			}
		}
	}
}

func (t *Throttle) callbacks(from netip.Addr) limit {
	return t.bucketed(logCallbacks, addressStack, string(identity.KnownAddressOf(from)))
}

// Callback counts an answer of an OpenID provider that belongs to a login of the browser,
// before the provider is asked, and returns how long to wait instead, 0 to go on.
func (t *Throttle) Callback(ctx context.Context, from netip.Addr) time.Duration {
	return waitOf(t.decide(ctx, t.callbacks(from).request()))
}

// CallbackDone says that the answer that was counted last was a good one.
func (t *Throttle) CallbackDone(ctx context.Context, from netip.Addr) {
	t.forget(ctx, t.callbacks(from))
}

// FinishFlow reports whether a login with an OpenID provider is finished for the first
// time. Only what the provider has confirmed may come here: each has a log of its own.
func (t *Throttle) FinishFlow(ctx context.Context, state string) bool {
	r := t.decide(ctx, limit{logFlows, "flow:" + state, flowStack}.request())
	return r.Err == nil && r.Allowed
}

// decide counts in both logs and goes by the shared one while it answers.
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
