package httpserver

import (
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
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
	logTokenNetworks
	logCallbackNetworks
	logKnownCallbacks
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
	addressStack = stack("20/m", "100/h") // logins, or callbacks, from one address with any account
	networkStack = stack("60/m", "600/h") // any of these from one IPv6 /48, whose owner has 65,536 addresses
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
	// maxCounted is how many logs of each kind a node keeps. Callers choose addresses and account
	// names, so the log that was idle longest is forgotten for a new one. To be forgotten, a
	// guesser must be counted this often under other names, which the limits of the network, the
	// address or the account make slower than waiting.
	maxCounted = 1 << 14
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
	// Secret is the key of the hash of addresses and names in the ids of logs, the same on all
	// nodes; nil for none.
	Secret func() []byte
	// Known reports whether a user has recently logged in from an address; "" means any
	// user.
	Known func(user string, address identity.KnownAddress) bool
}

// Throttle limits the guessing of passwords, codes and tokens on all nodes together. It uses
// Stint's own limiter.
//
// Nobody can lock somebody else out. A valid token always passes. A limit by address affects
// only that address. An address from which an account has logged in before has a separate limit
// for that account; attempts from other addresses do not count against it, not even those from
// the same IPv6 /64. A new address in a /64 from which the account has logged in shares the
// limit of that /64. Every address, network and account has a log of its own, so that nothing
// counts against another. A Throttle is safe for concurrent use.
type Throttle struct {
	o       ThrottleOptions
	counted sync.Map // from the kind of a log to its *idleList
}

// NewThrottle returns a Throttle.
func NewThrottle(o ThrottleOptions) *Throttle {
	if o.Secret == nil {
		o.Secret = func() []byte { return nil }
	}
	if o.Known == nil {
		o.Known = func(string, identity.KnownAddress) bool { return false }
	}
	return &Throttle{o: o}
}

// limit is one log and the rules that apply to it.
type limit struct {
	policy int64
	key    string
	rules  rules.Stack
	isWide bool // a network's, which holds many addresses
}

func (l limit) ref() timestamplog.LogID { return timestamplog.LogID{Policy: l.policy, Key: l.key} }

func (l limit) request() timestamplog.Request {
	return timestamplog.Request{LogID: l.ref(), Version: 1, Rules: l.rules, Retention: rules.Retention{}.Cover(l.rules), Cost: 1}
}

// limit returns the limit for what texts identify. Its log's id has their hash, so that an
// attacker-chosen text is neither long nor readable in Redis.
func (t *Throttle) limit(policy int64, s rules.Stack, texts ...string) limit {
	sum := hmac.New(sha256.New, t.o.Secret())
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(policy))) //nolint:gosec // only its bits count
	for _, text := range texts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		sum.Write([]byte(text))
	}
	return limit{policy: policy, key: "throttle:" + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16]), rules: s}
}

// ofAddress returns the limits of an address and of the IPv6 /48 around it.
func (t *Throttle) ofAddress(policy int64, s rules.Stack, networks int64, from netip.Addr) []limit {
	all := []limit{t.limit(policy, s, string(identity.KnownAddressOf(from)))}
	if from = from.Unmap(); from.Is6() && !from.IsLoopback() {
		network := t.limit(networks, networkStack, netip.PrefixFrom(from, 48).Masked().String())
		network.isWide = true
		all = append(all, network)
	}
	return all
}

// limits returns the limits that a login attempt has to pass, in the order of counting. A limit
// that refuses ends the counting.
func (t *Throttle) limits(from netip.Addr, account string) []limit {
	if address, known := t.knownAddress(from, account); known {
		return []limit{t.known(address, account)}
	}
	// The pair comes after its address, which bounds how many pairs it makes, and before the
	// network, of which one account then uses little.
	pair := t.limit(logPairs, pairStack, string(identity.KnownAddressOf(from)), account)
	all := slices.Insert(t.ofAddress(logAddresses, addressStack, logNetworks, from), 1, pair)
	if !from.IsLoopback() {
		all = append(all, t.limit(logAccounts, accountStack, account))
	}
	return all
}

// knownAddress returns the known address of an account, of any account if that is "", that
// covers from.
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
	all := []limit{t.limit(logCodes, codeStack, string(identity.KnownAddressOf(from)), account)}
	if !from.IsLoopback() {
		all = append(all, t.limit(logCodeAccounts, codeAccountStack, account))
	}
	return all
}

func (t *Throttle) knownCodes(address identity.KnownAddress, account string) limit {
	return limit{policy: logKnownCodes, key: string(address) + " " + account, rules: codeStack}
}

// known returns the limit of a known pair of address and account. There are few such pairs, so
// each has its own log.
func (t *Throttle) known(address identity.KnownAddress, account string) limit {
	return limit{policy: logKnown, key: string(address) + " " + account, rules: knownStack}
}

// BadToken counts an invalid token and returns how long its sender must wait, 0 if the next
// attempt is allowed.
func (t *Throttle) BadToken(ctx context.Context, from netip.Addr) time.Duration {
	all := t.ofAddress(logTokens, tokenStack, logTokenNetworks, from)
	if t.o.Local == nil {
		return t.count(ctx, all, t.decide)
	}
	// The counts of this node are part of the counts of all nodes. Asking this node first
	// bounds the calls of the shared log in a flood to the limit.
	if wait := t.count(ctx, all, t.decideLocal); wait > 0 {
		return wait
	}
	return t.count(ctx, all, t.decideShared)
}

// Login counts a login attempt, before the password is checked. It returns how long the caller
// must wait, 0 to go on.
func (t *Throttle) Login(ctx context.Context, from netip.Addr, account string) time.Duration {
	return t.count(ctx, t.limits(from, account), t.decide)
}

// Code counts a code given as the second factor of an account, before the code is checked. It
// returns how long the caller must wait, 0 to go on. A code also counts as a login attempt.
func (t *Throttle) Code(ctx context.Context, from netip.Addr, account string) time.Duration {
	return t.count(ctx, append(t.limits(from, account), t.codeLimits(from, account)...), t.decide)
}

// count counts an attempt in the logs of limits, by decide. It returns how long the caller must
// wait, 0 to go on. What a full network would refuse is counted nowhere.
func (t *Throttle) count(ctx context.Context, limits []limit, decide func(context.Context, timestamplog.Request) timestamplog.Result) time.Duration {
	for _, l := range limits {
		if !l.isWide {
			continue
		}
		request := l.request()
		request.Peek = true
		if wait := waitOf(decide(ctx, request)); wait > 0 {
			return wait
		}
	}
	for _, l := range limits {
		t.use(ctx, l)
		if wait := waitOf(decide(ctx, l.request())); wait > 0 {
			return wait
		}
	}
	return 0
}

// use makes room for the log of l by deleting the log of its kind that was idle longest.
func (t *Throttle) use(ctx context.Context, l limit) {
	list, _ := t.counted.LoadOrStore(l.policy, &idleList{})
	if idle, isFull := list.(*idleList).use(l.key); isFull {
		t.forget(ctx, limit{policy: l.policy, key: idle})
	}
}

// idleList is the keys of logs in the order of their last use. It is safe for concurrent use.
type idleList struct {
	mu    sync.Mutex
	order list.List // of string, the last used first
	all   map[string]*list.Element
}

// use notes the use of a key. If there are too many then, it removes and returns the one that
// was idle longest.
func (l *idleList) use(key string) (idle string, isFull bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[key]; e != nil {
		l.order.MoveToFront(e)
		return "", false
	}
	if l.all == nil {
		l.all = map[string]*list.Element{}
	}
	l.all[key] = l.order.PushFront(key)
	if len(l.all) <= maxCounted {
		return "", false
	}
	idle = l.order.Remove(l.order.Back()).(string)
	delete(l.all, idle)
	return idle, true
}

// LoginsLeft returns how many more login attempts with an account are allowed from an address
// before the caller has to wait. It counts nothing, and ignores attempts from other addresses.
func (t *Throttle) LoginsLeft(ctx context.Context, from netip.Addr, account string) int {
	least := accountStack.LargestLimit()
	for _, l := range t.limits(from, account) {
		if l.policy == logAccounts || l.isWide {
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
		t.limit(logPairs, pairStack, string(address), account),
		t.limit(logCodes, codeStack, string(address), account),
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

// callbacks returns the limits of callbacks. An address from which anybody has logged in has
// one of its own, which no neighbour in its network uses up.
func (t *Throttle) callbacks(from netip.Addr) []limit {
	if address, known := t.knownAddress(from, ""); known {
		return []limit{t.limit(logKnownCallbacks, addressStack, string(address))}
	}
	return t.ofAddress(logCallbacks, addressStack, logCallbackNetworks, from)
}

// Callback counts a response of an OpenID provider that belongs to a login in this browser,
// before the provider is asked. It returns how long the caller must wait, 0 to go on.
func (t *Throttle) Callback(ctx context.Context, from netip.Addr) time.Duration {
	return t.count(ctx, t.callbacks(from), t.decide)
}

// CallbackDone records that the last counted callback succeeded. It resets the counts of the
// address, not of its network.
func (t *Throttle) CallbackDone(ctx context.Context, from netip.Addr) {
	all := []limit{t.limit(logCallbacks, addressStack, string(identity.KnownAddressOf(from)))}
	for _, known := range identity.KnownAddressesOf(from) {
		all = append(all, t.limit(logKnownCallbacks, addressStack, string(known)))
	}
	t.forget(ctx, all...)
}

// FinishFlow reports whether a login with an OpenID provider is finished for the first time.
// Pass only a state that the provider has confirmed, since each state has its own log.
func (t *Throttle) FinishFlow(ctx context.Context, state string) bool {
	r := t.decide(ctx, limit{policy: logFlows, key: "flow:" + state, rules: flowStack}.request())
	return r.Err == nil && r.Allowed
}

// decide counts in both logs and returns the result of the shared one if that is reachable.
func (t *Throttle) decide(ctx context.Context, r timestamplog.Request) timestamplog.Result {
	if t.o.Local == nil {
		return t.decideShared(ctx, r)
	}
	local := t.decideLocal(ctx, r)
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

func (t *Throttle) decideLocal(ctx context.Context, r timestamplog.Request) timestamplog.Result {
	return decide(ctx, t.o.Local, r)
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
