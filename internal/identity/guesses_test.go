package identity_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// limiter is a Guesses on a clock that the test moves.
type limiter struct {
	*identity.Guesses
	now time.Time
}

func newLimiter() *limiter {
	l := &limiter{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	now := func() time.Time { return l.now }
	l.Guesses = identity.NewGuesses(memlog.New(memlog.Options{Now: now}), now)
	return l
}

// address returns the i-th of many addresses in networks of their own.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{203, 0, byte(113 + i/200), byte(1 + i%200)})
}

func TestLoginsAsOneAccountFromOneAddressAreLimited(t *testing.T) {
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
		t.Errorf("after the wait there is another: %v", wait)
	}
}

func TestAGoodLoginForgetsTheBadOnesBeforeIt(t *testing.T) {
	l, ctx := newLimiter(), context.Background()
	for range 50 {
		if wait := l.Login(ctx, address(0), "ada"); wait != 0 {
			t.Fatalf("a login that is always good has to wait %v", wait)
		}
		if err := l.LoggedIn(ctx, address(0), "ada"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAGuesserWithManyAddressesIsLimitedAndLocksNobodyOut(t *testing.T) {
	l, ctx := newLimiter(), context.Background()
	home := netip.MustParseAddr("198.51.100.1")
	if l.Login(ctx, home, "ada") != 0 || l.LoggedIn(ctx, home, "ada") != nil {
		t.Fatal("the first login was refused")
	}
	refused := 0
	for i := range 400 {
		if l.Login(ctx, address(i), "ada") > 0 {
			refused++
		}
	}
	if refused < 350 {
		t.Fatalf("%d of 400 guesses were refused", refused)
	}
	if wait := l.Login(ctx, home, "ada"); wait != 0 {
		t.Errorf("the owner of the account has to wait %v", wait)
	}
	if wait := l.Login(ctx, netip.MustParseAddr("127.0.0.1"), "ada"); wait != 0 {
		t.Errorf("on this machine the owner has to wait %v", wait)
	}
}

func TestAnIPv6GuesserIsCountedByItsNetwork(t *testing.T) {
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
