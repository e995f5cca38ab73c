package operations_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/storetest"
)

func TestChannelSecretsAreStoredSealed(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, s *storetest.Fixture) {
		ctx, by := t.Context(), storetest.Operator
		secrets := notify.Secrets{URL: "ntfy://me:hunter2@host/topic", Signing: "signing"}
		c := notify.Config{
			Name: "phone", Type: notify.Ntfy, Host: "host", To: []string{"a@example.com", "b@example.com"}, From: "c@example.com",
			Kinds: []notify.Kind{notify.Outage, notify.Recovery}, UrgentOnly: true, Secrets: secrets,
		}
		added, err := s.Channels.AddChannel(ctx, by, c)
		if err != nil {
			t.Fatal(err)
		}
		c.Author, c.UpdatedBy, c.Created, c.Updated, c.Revision = added.Author, added.UpdatedBy, added.Created, added.Updated, added.Revision
		all, err := s.Channels.LoadChannels(ctx)
		if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], c) {
			t.Fatalf("got %+v, %v; want %+v", all, err, c)
		}
		all, err = s.Channels.FindChannels(ctx)
		if err != nil || len(all) != 1 || all[0].Secrets != (notify.Secrets{}) {
			t.Fatalf("the list contains secrets: %+v, %v", all, err)
		}
		err = s.View(ctx, func(tx *db.Tx) error {
			var sealed []byte
			_, err := tx.One(`SELECT sealed FROM channels`, nil, &sealed)
			if bytes.Contains(sealed, []byte("hunter2")) || len(sealed) < 40 {
				t.Errorf("the secrets are stored unsealed as %q", sealed)
			}
			if _, err := db.Unseal(tx, "notification channel other", sealed); !errors.Is(err, db.ErrUnsealable) {
				t.Errorf("Unseal under another label: got %v, want ErrUnsealable", err)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Channels.AddChannel(ctx, by, c); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second channel of the same name: got %v, want Conflict", err)
		}
		// Waiting notifications fail when the channel is disabled.
		if err := s.Outbox.AddNotifications(ctx, []notify.Notification{{Kind: notify.Outage, At: s.LocalNow()}}, []string{"phone"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Channels.ChangeChannel(ctx, by, "phone", etag.Any, func(c *notify.Config) error {
			if c.Secrets != secrets {
				t.Errorf("ChangeChannel got the secrets %+v, want %+v", c.Secrets, secrets)
			}
			c.Disabled = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		sent, err := s.Outbox.Deliveries(ctx, 10)
		if err != nil || len(sent) != 1 || sent[0].Failed.IsZero() || sent[0].Err != "the channel was disabled" {
			t.Errorf("got %+v, %v", sent, err)
		}
		if err := s.Channels.DeleteChannel(ctx, by, "phone", etag.Any); err != nil {
			t.Fatal(err)
		}
		if err := s.Channels.DeleteChannel(ctx, by, "phone", etag.Any); !fault.Is(err, fault.NotFound) {
			t.Errorf("deleting a second time: got %v, want NotFound", err)
		}
	})
}

// A node that does not know yet that a channel was disabled or deleted still adds notifications
// for it. They must not be sent weeks later, over a channel that may belong to somebody else.
func TestChannelSendsNothingFromBeforeItWasAddedOrEnabled(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, s *storetest.Fixture) {
		ctx, by := t.Context(), storetest.Operator
		c := notify.Config{Name: "phone", Type: notify.Ntfy, Host: "host", Secrets: notify.Secrets{URL: "ntfy://host/topic"}}
		late := func() {
			t.Helper()
			if err := s.Outbox.AddNotifications(ctx, []notify.Notification{{Kind: notify.Outage, At: s.LocalNow()}}, []string{"phone", "mail"}); err != nil {
				t.Fatal(err)
			}
		}
		waiting := func(channel string) int {
			t.Helper()
			due, err := s.Outbox.Due(ctx, channel, s.LocalNow())
			if err != nil {
				t.Fatal(err)
			}
			return len(due)
		}
		disable := func(is bool) {
			t.Helper()
			if _, err := s.Channels.ChangeChannel(ctx, by, "phone", etag.Any, func(c *notify.Config) error { c.Disabled = is; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		add := func() {
			t.Helper()
			if _, err := s.Channels.AddChannel(ctx, by, c); err != nil {
				t.Fatal(err)
			}
		}
		late()
		add()
		if n := waiting("phone"); n != 0 {
			t.Errorf("a new channel sends %d earlier notifications", n)
		}
		disable(true)
		late()
		disable(false)
		if n := waiting("phone"); n != 0 {
			t.Errorf("an enabled channel sends %d notifications from before", n)
		}
		late()
		if _, err := s.Channels.ChangeChannel(ctx, by, "phone", etag.Any, func(c *notify.Config) error { c.UrgentOnly = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if n := waiting("phone"); n != 1 {
			t.Errorf("after another change %d notifications wait, want 1", n)
		}
		if n := waiting("mail"); n != 3 {
			t.Errorf("%d notifications wait for the other channel, want 3", n)
		}
	})
}

func TestDamagedChannelSecretsBreakOnlyThatChannel(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, s *storetest.Fixture) {
		for _, name := range []string{"desk", "phone"} {
			c := notify.Config{Name: name, Type: notify.Ntfy, Host: "host", Secrets: notify.Secrets{URL: "ntfy://host/topic"}}
			if _, err := s.Channels.AddChannel(t.Context(), storetest.Operator, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Write(t.Context(), func(tx *db.Tx) error {
			sealed, err := db.Seal(tx, "notification channel desk", []byte("{"))
			if err != nil {
				return err
			}
			_, err = tx.Exec(`UPDATE channels SET sealed = $1 WHERE name = 'desk'`, sealed)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		all, err := s.Channels.LoadChannels(t.Context())
		if err != nil || len(all) != 2 || all[0].Broken == "" || all[1].Broken != "" || all[1].Secrets.URL == "" {
			t.Errorf("got %+v, %v", all, err)
		}
	})
}

func TestEndSilence(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, s *storetest.Fixture) {
		ctx, by := t.Context(), storetest.Operator
		made, err := s.Channels.AddSilence(ctx, by, notify.Silence{Kind: notify.Outage, Reason: "maintenance", Until: s.LocalNow().Add(time.Hour)}, func([]notify.Silence) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Channels.FindSilences(ctx)
		if err != nil || len(all) != 1 || all[0] != made {
			t.Fatalf("got %+v, %v; want %+v", all, err, made)
		}
		if _, err := s.Channels.EndSilence(ctx, by, made.ID, func(notify.Silence) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Channels.EndSilence(ctx, by, made.ID, func(notify.Silence) error { return nil }); !fault.Is(err, fault.NotFound) {
			t.Errorf("ending a second time: got %v, want NotFound", err)
		}
		if all, err := s.Channels.FindSilences(ctx); err != nil || len(all) != 0 {
			t.Errorf("got %+v, %v", all, err)
		}
	})
}

func TestChangeChannelChecksETag(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, s *storetest.Fixture) {
		ctx, by := t.Context(), storetest.Operator
		c := notify.Config{Name: "phone", Type: notify.Ntfy, Host: "host", Secrets: notify.Secrets{URL: "ntfy://host/topic"}}
		first, err := s.Channels.AddChannel(ctx, by, c)
		if err != nil {
			t.Fatal(err)
		}
		secret := func(url string) func(*notify.Config) error {
			return func(c *notify.Config) error { c.Secrets.URL = url; return nil }
		}
		second, err := s.Channels.ChangeChannel(ctx, by, "phone", notify.TagOf(&first), secret("ntfy://host/second"))
		if err != nil {
			t.Fatal(err)
		}
		if found, err := s.Channels.FindChannel(ctx, "phone"); err != nil || notify.TagOf(&found) != notify.TagOf(&second) {
			t.Errorf("found %+v, changed to %+v: %v", found, second, err)
		}
		if _, err := s.Channels.ChangeChannel(ctx, by, "phone", notify.TagOf(&first), secret("ntfy://host/third")); !fault.Is(err, fault.Outdated) {
			t.Errorf("a change with an old tag: got %v, want Outdated", err)
		}
		if _, err := s.Channels.ChangeChannel(ctx, by, "phone", etag.New, secret("ntfy://host/third")); !fault.Is(err, fault.NeedVersion) {
			t.Errorf("a change without a tag: got %v, want NeedVersion", err)
		}
		if err := s.Channels.DeleteChannel(ctx, by, "phone", notify.TagOf(&first)); !fault.Is(err, fault.Outdated) {
			t.Errorf("deleting with an old tag: got %v, want Outdated", err)
		}
		if err := s.Channels.DeleteChannel(ctx, by, "phone", notify.TagOf(&second)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Channels.AddChannel(ctx, by, c); err != nil {
			t.Fatal(err)
		}
		if err := s.Channels.DeleteChannel(ctx, by, "phone", notify.TagOf(&first)); !fault.Is(err, fault.Outdated) {
			t.Errorf("deleting a recreated channel with an old tag: got %v, want Outdated", err)
		}
	})
}
