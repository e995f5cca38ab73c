package identities_test

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/identities"
	"github.com/stint-dev/stint/test/storetest"
)

// beginWithCode logs a user in by a new pending login and a second factor.
func beginWithCode(t *testing.T, f *storetest.Fixture, store *identities.Factors, u *identity.User, factor identity.SecondFactor, name string) error {
	t.Helper()
	pending, session, now := sha256.Sum256([]byte("pending "+name)), sha256.Sum256([]byte(name)), f.Clock.Now()
	if err := store.AddPendingLogin(t.Context(), storetest.Operator, identity.PendingLogin{Hash: pending[:], UserID: u.ID}, u.PasswordHash); err != nil {
		return err
	}
	return store.BeginSessionWithCode(t.Context(), storetest.Operator, identity.Session{
		Hash: session[:], UserID: u.ID, Created: now, LastSeen: now, Expires: now.Add(time.Hour),
	}, pending[:], factor, u)
}

// Many concurrent logins use the same code, on several nodes: exactly one succeeds, for every
// step and every recovery code.
func TestCodeUsedConcurrentlyIsAcceptedOnce(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		u := storetest.AddUser(t, f, "ann", identity.Administrator)
		_, codes := storetest.SetUpTOTP(t, f.Factors, u.ID)
		u, err := f.Identities.FindUserByID(t.Context(), u.ID)
		if err != nil || u.TOTPSince.IsZero() {
			t.Fatalf("%+v, %v", u, err)
		}
		nodes := []*identities.Factors{f.Factors}
		if f.Postgres() {
			nodes = append(nodes, f.Another(t).Factors, f.Another(t).Factors)
		}
		recovery, _ := identity.SecondFactorOf(codes[0], nil, time.Time{})
		for round, factor := range []identity.SecondFactor{{Step: 100}, {Step: 101}, recovery} {
			var all sync.WaitGroup
			var in, refused atomic.Int32
			begin := make(chan struct{})
			for i := range 12 {
				all.Go(func() {
					<-begin
					err := beginWithCode(t, f, nodes[i%len(nodes)], u, factor, fmt.Sprint(round, " ", i))
					switch {
					case err == nil:
						in.Add(1)
					case fault.Is(err, fault.Conflict):
						refused.Add(1)
					default:
						t.Errorf("a login failed: %v", err)
					}
				})
			}
			close(begin)
			all.Wait()
			if in.Load() != 1 || refused.Load() != 11 {
				t.Errorf("%+v: %d logins succeeded and %d were refused, want 1 and 11", factor, in.Load(), refused.Load())
			}
		}
		for _, former := range []int64{99, 100, 101} {
			storetest.WantFault(t, beginWithCode(t, f, f.Factors, u, identity.SecondFactor{Step: former}, fmt.Sprint("former ", former)), fault.Conflict)
		}
		found, err := f.Factors.FindTOTP(t.Context(), u.ID)
		if err != nil || found.RecoveryLeft != identity.RecoveryCodeCount-1 {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// Others who know the password cannot evict a pending login of the user, and their own are few.
func TestPendingLoginsOfOneAddressDoNotEvictOthers(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		u := storetest.AddUser(t, f, "ann", identity.Administrator)
		storetest.SetUpTOTP(t, f.Factors, u.ID)
		add := func(name string, from identity.KnownAddress) []byte {
			hash := sha256.Sum256([]byte(name))
			if err := f.Factors.AddPendingLogin(t.Context(), storetest.Operator, identity.PendingLogin{Hash: hash[:], UserID: u.ID, Address: from}, u.PasswordHash); err != nil {
				t.Fatal(err)
			}
			f.Clock.Advance(time.Second)
			return hash[:]
		}
		own := add("own", "ip:198.51.100.1")
		oldest := add("oldest", "ip:203.0.113.1")
		for i := range 20 {
			add(fmt.Sprint("other ", i), "ip:203.0.113.1")
		}
		if _, err := f.Factors.FindPendingLogin(t.Context(), own); err != nil {
			t.Error(err)
		}
		_, err := f.Factors.FindPendingLogin(t.Context(), oldest)
		storetest.WantFault(t, err, fault.NotFound)
	})
}

func TestPendingLoginEndsAfterTimeAttemptsOrChanges(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		u := storetest.AddUser(t, f, "ann", identity.Administrator)
		storetest.AddUser(t, f, "other", identity.Administrator)
		hash := sha256.Sum256([]byte("pending"))
		add := func() error {
			return f.Factors.AddPendingLogin(ctx, storetest.Operator, identity.PendingLogin{Hash: hash[:], UserID: u.ID}, u.PasswordHash)
		}
		storetest.WantFault(t, add(), fault.Conflict) // the user has no second factor
		storetest.SetUpTOTP(t, f.Factors, u.ID)
		// A password alone does not begin a session then, either.
		storetest.WantFault(t, f.Identities.BeginSession(ctx, storetest.Operator, identity.Session{Hash: hash[:], UserID: u.ID}, u.PasswordHash), fault.Conflict)
		find := func() error { _, err := f.Factors.FindPendingLogin(ctx, hash[:]); return err }
		role := identity.Viewer
		for what, end := range map[string]func() error{
			"time": func() error { f.Clock.Advance(identity.PendingLoginLifetime); return nil },
			"attempts": func() error {
				for want := identity.MaxPendingAttempts - 1; want >= 0; want-- {
					if left, err := f.Factors.CountPendingAttempt(ctx, hash[:]); err != nil || left != want {
						return fmt.Errorf("%d left, want %d, %w", left, want, err)
					}
				}
				return nil
			},
			"a change": func() error {
				_, err := f.Identities.UpdateUser(ctx, storetest.Operator, u.ID, identity.UserUpdate{Role: &role})
				return err
			},
			"a removed second factor": func() error {
				after, err := f.Identities.UpdateUser(ctx, storetest.Operator, u.ID, identity.UserUpdate{RemoveTOTP: true})
				if err != nil {
					return err
				}
				if found, err := f.Factors.FindTOTP(ctx, u.ID); err != nil || found != nil || !after.TOTPSince.IsZero() {
					return fmt.Errorf("the second factor is left: %+v, %w", found, err)
				}
				return nil
			},
			"a reset": func() error { _, err := f.Identities.ResetTOTP(ctx, storetest.Operator, u.ID); return err },
		} {
			hash = sha256.Sum256([]byte(what))
			if found, err := f.Factors.FindTOTP(ctx, u.ID); err != nil {
				t.Fatal(err)
			} else if found == nil {
				storetest.SetUpTOTP(t, f.Factors, u.ID)
			}
			if err := add(); err != nil {
				t.Fatal(what, err)
			}
			if err := find(); err != nil {
				t.Fatal(what, err)
			}
			if err := end(); err != nil {
				t.Fatal(what, err)
			}
			storetest.WantFault(t, find(), fault.NotFound)
			_, err := f.Factors.CountPendingAttempt(ctx, hash[:])
			storetest.WantFault(t, err, fault.NotFound)
		}
		if err := f.Identities.DeleteUser(ctx, storetest.Operator, u.ID); err != nil {
			t.Fatal(err)
		}
		if found, err := f.Factors.FindTOTP(ctx, u.ID); err != nil || found != nil {
			t.Errorf("the deleted user has %+v, %v", found, err)
		}
	})
}
