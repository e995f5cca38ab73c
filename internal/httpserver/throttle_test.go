package httpserver_test

import (
	"context"
	"net/netip"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// limiter is a Throttle on a clock that the test moves.
type limiter struct {
	*httpserver.Throttle
	now   time.Time
	log   *memlog.Log
	known map[identity.KnownPair]bool
}

func newLimiter() *limiter {
	l := &limiter{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), known: map[identity.KnownPair]bool{}}
	l.log = memlog.New(memlog.Options{Now: func() time.Time { return l.now }})
	l.Throttle = httpserver.NewThrottle(httpserver.ThrottleOptions{
		Shared: l.log,
		Known: func(user string, a identity.KnownAddress) bool {
			return l.known[identity.KnownPair{User: user, Address: a}]
		},
	})
	return l
}

// knows makes an address known for a user, as the catalog does after a login.
func (l *limiter) knows(user string, from netip.Addr) {
	for _, address := range identity.KnownAddressesOf(from) {
		l.known[identity.KnownPair{User: user, Address: address}] = true
		l.known[identity.KnownPair{Address: address}] = true // somebody's
	}
}

// address returns the i-th of many addresses in networks of their own.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{203, 0, byte(113 + i/200), byte(1 + i%200)})
}

func TestThrottleLimitsLoginsPerAccountAndAddress(t *testing.T) {
	l, ctx := newLimiter(), context.Background()
	for i := range 5 {
		if wait := l.Login(ctx, address(0), "ada"); wait != 0 {
			t.Fatalf("attempt %d has to wait %v", i, wait)
		}
	}
	if wait := l.Login(ctx, address(0), "ada"); wait != time.Minute {
		t.Fatalf("the sixth attempt has to wait %v, want a minute", wait)
	}
	if wait := l.Login(ctx, address(0), "bob"); wait != 0 {
		t.Errorf("another account has to wait %v", wait)
	}
	if wait := l.Login(ctx, address(1), "ada"); wait != 0 {
		t.Errorf("another address has to wait %v", wait)
	}
	l.now = l.now.Add(time.Minute)
	if wait := l.Login(ctx, address(0), "ada"); wait != 0 {
		t.Errorf("after the wait, Login returned another: %v", wait)
	}
}

func TestSuccessfulLoginResetsTheLimit(t *testing.T) {
	l, ctx := newLimiter(), context.Background()
	for range 50 {
		if wait := l.Login(ctx, address(0), "ada"); wait != 0 {
			t.Fatalf("a login that always succeeds has to wait %v", wait)
		}
		l.LoggedIn(ctx, address(0), "ada")
		l.knows("ada", address(0))
	}
}

func TestLoginToOwnAccountDoesNotResetTheAddressLimit(t *testing.T) {
	l, ctx := newLimiter(), context.Background()
	l.knows("eve", address(0))
	tried := 0
	for i := range 100 {
		if l.Login(ctx, address(0), "user"+strconv.Itoa(i)) == 0 {
			tried++
		}
		if l.Login(ctx, address(0), "eve") != 0 {
			t.Fatal("a login that always succeeds has to wait")
		}
		l.LoggedIn(ctx, address(0), "eve")
	}
	if tried != 20 {
		t.Errorf("%d logins as others were let through within a minute, want 20", tried)
	}
}

func TestThrottleLimitsGuessesFromManyAddressesWithoutLockout(t *testing.T) {
	l, ctx := newLimiter(), context.Background()
	home := netip.MustParseAddr("198.51.100.1")
	l.knows("ada", home)
	refused := 0
	for i := range 400 {
		if l.Login(ctx, address(i), "ada") > 0 {
			refused++
		}
	}
	if refused < 350 {
		t.Fatalf("%d of 400 guesses were refused, want at least 350", refused)
	}
	if wait := l.Login(ctx, home, "ada"); wait != 0 {
		t.Errorf("the owner of the account has to wait %v", wait)
	}
	if wait := l.Login(ctx, netip.MustParseAddr("127.0.0.1"), "ada"); wait != 0 {
		t.Errorf("on the local machine the owner has to wait %v", wait)
	}
}

func TestThrottleCountsIPv6GuessesByNetwork(t *testing.T) {
	l, ctx := newLimiter(), context.Background()
	refused := 0
	for i := range 40 {
		from := netip.MustParseAddr("2001:db8::").As16()
		from[15] = byte(i + 1)
		if l.BadToken(ctx, netip.AddrFrom16(from)) > 0 {
			refused++
		}
	}
	if refused != 20 {
		t.Fatalf("%d of 40 guesses were refused, want 20", refused)
	}
}

func TestThrottleLimitsIPv6GuessesByTheLargerNetwork(t *testing.T) {
	l, ctx := newLimiter(), t.Context()
	of := func(network, subnet byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, network, 0, subnet, 15: 1})
	}
	l.knows("ada", of(1, 200))
	refused := 0
	for i := range byte(100) {
		if l.Login(ctx, of(1, i), "user"+strconv.Itoa(int(i))) > 0 {
			refused++
		}
	}
	if refused != 40 {
		t.Errorf("%d of 100 logins from one /48 have to wait, want 40", refused)
	}
	if wait := l.Login(ctx, of(1, 200), "ada"); wait != 0 || l.IsStranger(of(1, 200), "ada") {
		t.Errorf("a user with a known address has to wait %v", wait)
	}
	if wait := l.Login(ctx, of(2, 1), "bob"); wait != 0 || !l.IsStranger(of(2, 1), "bob") {
		t.Errorf("another /48 has to wait %v", wait)
	}
	for _, here := range []string{"127.0.0.1", "::1"} {
		if l.IsStranger(netip.MustParseAddr(here), "bob") {
			t.Errorf("IsStranger(%s) is true, want false for loopback", here)
		}
	}
}

// One /48 tries everything that is counted from each of its 65,536 networks, and 20,000 more
// addresses fill the lists of counters.
func TestNoFloodKeepsFreshAddressesFromLoggingIn(t *testing.T) {
	l, ctx := newLimiter(), t.Context()
	neighbour := netip.MustParseAddr("2001:db8:1:ffff::9")
	l.knows("ada", neighbour)
	passed := map[string]int{}
	attempt := func(from netip.Addr, account string) {
		for name, wait := range map[string]time.Duration{
			"callbacks": l.Callback(ctx, from), "tokens": l.BadToken(ctx, from), "passwords": l.Login(ctx, from, account), "codes": l.Code(ctx, from, account),
		} {
			if wait == 0 {
				passed[name]++
			}
		}
	}
	for i := range 1 << 16 {
		attempt(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, byte(i >> 8), byte(i), 15: 1}), "user"+strconv.Itoa(i))
	}
	passed["callbacks"]-- // that from the network where ada has logged in counts apart
	if passed["callbacks"] != 60 || passed["tokens"] != 60 || passed["passwords"]+passed["codes"] != 60 {
		t.Errorf("from one /48 passed %v, want 60 callbacks, 60 tokens, and 60 passwords and codes together", passed)
	}
	for i := range 20_000 {
		attempt(netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)}), "user"+strconv.Itoa(i))
	}
	fresh := []netip.Addr{neighbour, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
	for i := range 200 {
		fresh = append(fresh, address(i))
	}
	refused := map[string]int{}
	for i, from := range fresh {
		account := "ada"
		if i > 0 {
			account = "owner" + strconv.Itoa(i)
		}
		for name, wait := range map[string]time.Duration{
			"callbacks": l.Callback(ctx, from), "tokens": l.BadToken(ctx, from), "passwords": l.Login(ctx, from, account), "codes": l.Code(ctx, from, account),
		} {
			if wait > 0 && (name != "tokens" || from != neighbour) { // wrong tokens of a full network wait, right ones never
				refused[name]++
			}
		}
	}
	if len(refused) > 0 {
		t.Errorf("of %d fresh and known addresses are refused %v, want none", len(fresh), refused)
	}
}

// Whoever has used up a limit gets no further attempts by being counted under other names.
func TestThrottleForgetsTheLongestIdleFirst(t *testing.T) {
	l, ctx := newLimiter(), t.Context()
	for range 20 {
		l.BadToken(ctx, address(0))
	}
	for i := range 20_000 {
		l.BadToken(ctx, netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)}))
		if i%10_000 == 0 && l.BadToken(ctx, address(0)) == 0 {
			t.Fatalf("after %d other addresses the full one is forgotten", i)
		}
	}
	if l.BadToken(ctx, address(0)) == 0 {
		t.Error("an address that goes on trying is forgotten")
	}
}

func TestLoginsLeftCountsDown(t *testing.T) {
	l, ctx := newLimiter(), t.Context()
	for want := 5; want > 0; want-- {
		if left := l.LoginsLeft(ctx, address(0), "maria"); left != want {
			t.Fatalf("LoginsLeft: got %d, want %d", left, want)
		}
		if wait := l.Login(ctx, address(0), "maria"); wait != 0 {
			t.Fatalf("an attempt with %d left has to wait %s", want, wait)
		}
	}
	if left := l.LoginsLeft(ctx, address(0), "maria"); left != 0 {
		t.Errorf("LoginsLeft after the last attempt: got %d, want 0", left)
	}
	if l.Login(ctx, address(0), "maria") == 0 {
		t.Error("Login let one attempt too many through")
	}
}

// An attacker at the owner's address, and one with any number of other addresses, use up the
// limits of strangers, never the limit of the known pair.
func TestKnownAddressCanLogInDuringAnAttack(t *testing.T) {
	l, ctx := newLimiter(), t.Context()
	home := address(0)
	l.knows("ada", home)
	for i := range 200 {
		l.Login(ctx, home, "user"+strconv.Itoa(i)) // uses up the address
		l.Login(ctx, address(1+i), "ada")          // and the account
	}
	if l.Login(ctx, home, "bob") == 0 {
		t.Fatal("the address still has attempts for strangers")
	}
	if wait := l.Login(ctx, home, "ada"); wait != 0 {
		t.Errorf("the owner has to wait %v", wait)
	}
	for range 9 {
		l.Login(ctx, home, "ada")
	}
	if wait := l.Login(ctx, home, "ada"); wait == 0 || wait > time.Minute {
		t.Errorf("guesses from a known address have to wait %v, want at most a minute", wait)
	}
}

func TestKnownIPv6AddressCanLogInDuringAnAttackFromItsNetwork(t *testing.T) {
	l, ctx := newLimiter(), t.Context()
	home := netip.MustParseAddr("2001:db8:1:2::a")
	l.knows("ada", home)
	neighbour := home
	for range 300 {
		neighbour = neighbour.Next()
		l.Login(ctx, neighbour, "ada")
	}
	if l.Login(ctx, neighbour, "ada") == 0 {
		t.Fatal("a neighbour still has attempts")
	}
	if wait := l.Login(ctx, home, "ada"); wait != 0 {
		t.Errorf("the owner has to wait %v", wait)
	}
	// A new address of the network shares the limit of its network. Other networks do not.
	l.now = l.now.Add(time.Minute)
	for i := range 400 {
		l.Login(ctx, address(i), "ada") // uses up the account
	}
	if wait := l.Login(ctx, neighbour.Next(), "ada"); wait != 0 {
		t.Errorf("a new address of the network has to wait %v", wait)
	}
}

// held returns the bytes in use.
func held() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestThrottleMemoryIsBounded(t *testing.T) {
	const names, bound = 100_000, 24 << 20
	for name, from := range map[string]func(i int) netip.Addr{
		"one address":    func(int) netip.Addr { return address(0) },
		"many addresses": func(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, byte(i >> 16), byte(i >> 8), byte(i)}) },
	} {
		l := newLimiter()
		before := held()
		for i := range names {
			l.Login(t.Context(), from(i), "a name of no user "+strconv.Itoa(i))
		}
		used := int64(held()) - int64(before)
		t.Logf("%s: %d names use %d kB", name, names, used>>10)
		if used > bound {
			t.Errorf("%s: %d names use %d bytes, want at most %d", name, names, used, bound)
		}
		runtime.KeepAlive(l)
	}
}

func TestThrottleCountsAcrossNodesAndRestarts(t *testing.T) {
	ctx, from := t.Context(), address(0)
	redis := servers.Redis(t)
	node := func() *httpserver.Throttle {
		shared, err := redislog.Open(redis.URL, redislog.Options{Prefix: redis.Prefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shared.Close() })
		return httpserver.NewThrottle(httpserver.ThrottleOptions{Shared: shared, Local: memlog.New(memlog.Options{})})
	}
	first, second := node(), node()
	for i := range 5 {
		if wait := []*httpserver.Throttle{first, second}[i%2].Login(ctx, from, "ada"); wait != 0 {
			t.Fatalf("attempt %d has to wait %v", i, wait)
		}
	}
	for name, n := range map[string]*httpserver.Throttle{"the first node": first, "the second": second, "one that started since": node()} {
		if n.Login(ctx, from, "ada") == 0 {
			t.Errorf("%s let a sixth attempt through", name)
		}
	}

	// Embedded, the snapshot keeps them.
	file := filepath.Join(t.TempDir(), "snapshot")
	before := newLimiter()
	for range 5 {
		before.Login(ctx, from, "ada")
	}
	if err := before.log.SaveFile(file); err != nil {
		t.Fatal(err)
	}
	after := newLimiter()
	if err := after.log.LoadFile(file); err != nil {
		t.Fatal(err)
	}
	if after.Login(ctx, from, "ada") == 0 {
		t.Error("a restart loses the attempts")
	}
}

func TestThrottleLimitsWhileTheSharedLogIsUnreachable(t *testing.T) {
	ctx, from := t.Context(), address(0)
	redis := servers.DedicatedRedis(t)
	shared, err := redislog.Open(redis.URL, redislog.Options{Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	var _ timestamplog.Log = shared
	throttle := httpserver.NewThrottle(httpserver.ThrottleOptions{Shared: shared, Local: memlog.New(memlog.Options{})})
	for range 3 {
		throttle.Login(ctx, from, "ada")
	}
	redis.Kill()
	throttle.LoggedIn(ctx, address(9), "bob") // waits for nothing
	for i := range 2 {                        // with those before the outage these are five
		if wait := throttle.Login(ctx, from, "ada"); wait != 0 {
			t.Fatalf("attempt %d of the outage has to wait %v", i, wait)
		}
	}
	if throttle.Login(ctx, from, "ada") == 0 {
		t.Error("the limit on logins does not apply in an outage")
	}
	refused := 0
	for range 40 {
		if throttle.BadToken(ctx, from) > 0 {
			refused++
		}
	}
	if refused != 20 {
		t.Errorf("in an outage %d of 40 bad tokens are refused, want 20", refused)
	}
}

func TestThrottleLimitsCodesPerDayWithoutLockout(t *testing.T) {
	l, ctx := newLimiter(), context.Background()
	tried := 0
	for range 24 * 60 { // like somebody who knows the password and has many addresses
		for i := range 20 {
			if l.Code(ctx, address(i), "ada") == 0 {
				tried++
			}
		}
		l.now = l.now.Add(time.Minute)
	}
	if tried == 0 || tried > 2*100 { // the day's limit slides
		t.Errorf("Code let %d codes through in a day", tried)
	}
	l.knows("ada", address(500))
	if wait := l.Code(ctx, address(500), "ada"); wait != 0 {
		t.Errorf("the known address has to wait %v", wait)
	}
	tried = 0
	for range 24 * 60 {
		if l.Code(ctx, address(500), "ada") == 0 {
			tried++
		}
		l.now = l.now.Add(time.Minute)
	}
	if tried > 2*50 {
		t.Errorf("%d codes were let through in a day from the known address", tried)
	}
	l.LoggedIn(ctx, address(500), "ada")
	if wait := l.Code(ctx, address(500), "ada"); wait != 0 {
		t.Errorf("after a successful login the known address has to wait %v", wait)
	}
}
