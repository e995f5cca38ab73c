package identity

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// The logs of guesses stand beside no policy's: real ids are positive.
const (
	logTokens int64 = -1 - iota
	logAddresses
	logPairs
	logAccounts
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
	addressStack = stack("20/m", "100/h") // logins from one address, whoever as
	pairStack    = stack("5/m", "30/h")   // logins as one account from one address
	accountStack = stack("30/m", "300/h") // logins as one account from anywhere
)

const (
	maxRemember = 10_000              // pairs of address and account
	rememberFor = 30 * 24 * time.Hour // how long a good login keeps a pair known
)

// Guesses limits the guessing of passwords and tokens with Stint's own limiter.
//
// Nobody can lock somebody else out for good: a good token always passes, what
// is counted by address hits only that address, and the limit on an account
// from anywhere spares this machine and every address from which the account
// has logged in before.
type Guesses struct {
	log    timestamplog.Log
	parser keys.Parser
	now    func() time.Time

	mu    sync.Mutex
	known map[pair]time.Time // of the last good login
}

type pair struct{ address, account string }

// NewGuesses returns a limiter that counts in log, which is this node's memory.
func NewGuesses(log timestamplog.Log, now func() time.Time) *Guesses {
	return &Guesses{log: log, now: now, known: map[pair]time.Time{}}
}

// BadToken counts a token that was wrong and returns how long its sender must
// wait, 0 while the next guess is let through.
func (g *Guesses) BadToken(ctx context.Context, from netip.Addr) time.Duration {
	return g.count(ctx, logTokens, g.address(from), tokenStack)
}

// Login counts an attempt to log in, before the password is looked at, and
// returns how long to wait instead, 0 to go on.
func (g *Guesses) Login(ctx context.Context, from netip.Addr, account string) time.Duration {
	address := g.address(from)
	wait := max(
		g.count(ctx, logAddresses, address, addressStack),
		g.count(ctx, logPairs, address+" "+account, pairStack),
	)
	if wait == 0 && !from.IsLoopback() && !g.isKnown(pair{address, account}) {
		wait = g.count(ctx, logAccounts, account, accountStack)
	}
	return wait
}

// LoggedIn says that the login that was counted last was a good one: what was
// counted against it is forgotten.
func (g *Guesses) LoggedIn(ctx context.Context, from netip.Addr, account string) error {
	p := pair{g.address(from), account}
	g.remember(p)
	for _, ref := range []timestamplog.Ref{
		{Policy: logAddresses, Key: p.address},
		{Policy: logPairs, Key: p.address + " " + account},
	} {
		if _, err := g.log.Reset(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// address is what an address is counted by: an IPv6 client by its network.
func (g *Guesses) address(from netip.Addr) string { return g.parser.AddressKey(from).String() }

func (g *Guesses) count(ctx context.Context, policy int64, key string, s rules.Stack) time.Duration {
	r := g.decide(ctx, guess(policy, key, s))
	if r.Err == nil && !r.Allowed {
		return time.Duration(r.RetryAt-r.Now) * time.Millisecond
	}
	return 0
}

// left returns how many more guesses every rule of s lets through now.
func (g *Guesses) left(ctx context.Context, policy int64, key string, s rules.Stack) int {
	request := guess(policy, key, s)
	request.Peek, request.Detail = true, true
	least := s.LargestLimit()
	for _, state := range g.decide(ctx, request).States {
		least = min(least, state.Remaining)
	}
	return least
}

func guess(policy int64, key string, s rules.Stack) timestamplog.Request {
	return timestamplog.Request{
		Ref: timestamplog.Ref{Policy: policy, Key: key}, Version: 1,
		Rules: s, Retention: rules.Retention{}.Cover(s), Cost: 1,
	}
}

func (g *Guesses) decide(ctx context.Context, r timestamplog.Request) timestamplog.Result {
	var results [1]timestamplog.Result
	g.log.Decide(ctx, []timestamplog.Request{r}, results[:])
	return results[0]
}

func (g *Guesses) isKnown(p pair) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, known := g.known[p]
	return known && g.now().Sub(at) < rememberFor
}

func (g *Guesses) remember(p pair) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= maxRemember {
		for old := range g.known { // any will do: it is only spared a limit
			delete(g.known, old)
			break
		}
	}
	g.known[p] = g.now()
}
