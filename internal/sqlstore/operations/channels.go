package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// Channels stores the notification channels that operators created, and the silences.
type Channels struct{ db *db.DB }

// NewChannels returns the store of the channels in a database.
func NewChannels(d *db.DB) *Channels { return &Channels{d} }

const (
	channelColumns = `name, type, host, sender, recipients, kinds, urgent_only, disabled, sealed, author, created_at, updated_at, updated_by, revision`
	readChannels   = `SELECT ` + channelColumns + ` FROM channels `
	insertChannel  = `
INSERT INTO channels (` + channelColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`
	updateChannel = `
UPDATE channels SET type = $2, host = $3, sender = $4, recipients = $5, kinds = $6, urgent_only = $7, disabled = $8, sealed = $9,
	updated_at = $10, updated_by = $11, revision = $12
WHERE name = $1`
	deleteChannel  = `DELETE FROM channels WHERE name = $1`
	countChannels  = `SELECT count(*) FROM channels`
	channelChanged = `UPDATE channels_changed SET revision = $1 WHERE id = 1`
	// endDeliveries ends the pending deliveries of a channel that sends nothing any more.
	endDeliveries   = `UPDATE deliveries SET failed_at = $2, problem = $3 WHERE channel = $1 AND sent_at = 0 AND failed_at = 0`
	countReferences = `SELECT count(*) FROM channels WHERE name = $1`
)

// MaxChannels is the maximum number of channels.
const MaxChannels = 50

// storedChannel is a channel with its secrets in their stored form.
type storedChannel struct {
	notify.Config
	sealed []byte
}

func scanChannel(r db.Row) (c storedChannel, err error) {
	var to, kinds string
	var urgent, disabled int64
	if err = r.Scan(&c.Name, &c.Type, &c.Host, &c.From, &to, &kinds, &urgent, &disabled, &c.sealed, &c.Author, db.MS(&c.Created), db.MS(&c.Updated), &c.UpdatedBy, &c.Revision); err != nil {
		return c, err
	}
	c.UrgentOnly, c.Disabled = urgent != 0, disabled != 0
	for _, k := range strings.Fields(kinds) {
		c.Kinds = append(c.Kinds, notify.Kind(k))
	}
	if to != "" {
		c.To = strings.Split(to, "\n")
	}
	return c, nil
}

// sealLabel binds the secrets of a channel to its name.
func sealLabel(name string) string { return "notification channel " + name }

func unseal(t *db.Tx, c *storedChannel) error {
	text, err := db.Unseal(t, sealLabel(c.Name), c.sealed)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &c.Secrets); err != nil {
		c.Secrets = notify.Secrets{}
		return db.ErrUnsealable // a damaged row must not keep other channels from sending
	}
	return nil
}

// args returns the arguments that insertChannel and updateChannel share.
func (c *storedChannel) args() []any {
	kinds := make([]string, len(c.Kinds))
	for i, k := range c.Kinds {
		kinds[i] = string(k)
	}
	return []any{c.Name, string(c.Type), c.Host, c.From, strings.Join(c.To, "\n"), strings.Join(kinds, " "), number(c.UrgentOnly), number(c.Disabled), c.sealed}
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// channelSnapshot is the form of a channel in the audit log, without its secrets.
type channelSnapshot struct {
	Name       string        `json:"name"`
	Type       notify.Type   `json:"type"`
	Host       string        `json:"host"`
	From       string        `json:"from,omitempty"`
	To         []string      `json:"to,omitempty"`
	Kinds      []notify.Kind `json:"kinds"`
	UrgentOnly bool          `json:"urgent_only"`
	Enabled    bool          `json:"enabled"`
}

func snapshotOf(c *notify.Config) channelSnapshot {
	return channelSnapshot{c.Name, c.Type, c.Host, c.From, c.To, c.Kinds, c.UrgentOnly, !c.Disabled}
}

// FindChannels returns the channels without their secrets, by name.
func (s *Channels) FindChannels(ctx context.Context) ([]notify.Config, error) {
	return s.find(ctx, false)
}

// LoadChannels returns the channels with their secrets, by name. If the secrets of a channel
// cannot be read, its field Broken says so.
func (s *Channels) LoadChannels(ctx context.Context) ([]notify.Config, error) {
	return s.find(ctx, true)
}

func (s *Channels) find(ctx context.Context, secrets bool) (all []notify.Config, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		all = nil
		stored, err := db.Each(t, scanChannel, readChannels+`ORDER BY name`)
		for _, c := range stored {
			if secrets {
				err := unseal(t, &c)
				if err != nil && !errors.Is(err, db.ErrUnsealable) {
					return err
				}
				if err != nil {
					c.Broken = err.Error()
				}
			}
			all = append(all, c.Config)
		}
		return err
	})
	return all, err
}

// FindChannel returns a channel with its secrets, or a *fault.Error for none.
func (s *Channels) FindChannel(ctx context.Context, name string) (c notify.Config, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		stored, err := findChannel(t, name)
		if err != nil {
			return err
		}
		if err := unseal(t, stored); err != nil && !errors.Is(err, db.ErrUnsealable) {
			return err
		} else if err != nil {
			stored.Broken = err.Error()
		}
		c = stored.Config
		return nil
	})
	return c, err
}

func findChannel(t *db.Tx, name string) (*storedChannel, error) {
	none := fault.New(fault.NotFound, "There is no channel %q that can be changed here.", db.Clip(name))
	if db.CheckText("name", name) != nil {
		return nil, none
	}
	found, err := db.Find(t, none, scanChannel, readChannels+`WHERE name = $1`, name)
	return &found, err
}

// findExpected is findChannel for a change that expects a state; see etag.Tag.
func findExpected(t *db.Tx, name string, expect etag.Tag) (*storedChannel, error) {
	stored, err := findChannel(t, name)
	if err != nil {
		return nil, err
	}
	return stored, etag.Check(fmt.Sprintf("channel %q", name), notify.TagOf(&stored.Config), expect)
}

func seal(t *db.Tx, c *storedChannel) error {
	text, err := json.Marshal(c.Secrets)
	if err != nil {
		return err
	}
	c.sealed, err = db.Seal(t, sealLabel(c.Name), text)
	return err
}

// AddChannel stores a new channel.
func (s *Channels) AddChannel(ctx context.Context, by audit.Actor, c notify.Config) (notify.Config, error) {
	err := s.db.Change(ctx, by, func(t *db.Tx) error {
		var same, all int64
		if _, err := t.One(countReferences, []any{c.Name}, &same); err != nil {
			return err
		}
		if _, err := t.One(countChannels, nil, &all); err != nil {
			return err
		}
		switch {
		case same > 0:
			return &fault.Error{Code: fault.Conflict, Field: "name", Message: "is the name of another channel"}
		case all >= MaxChannels:
			return fault.New(fault.Conflict, "There are %d channels; no more are allowed.", all)
		}
		c.Author, c.UpdatedBy, c.Created, c.Updated, c.Revision = by.Name, by.Name, t.Now, t.Now, t.Revision
		stored := &storedChannel{Config: c}
		if err := seal(t, stored); err != nil {
			return err
		}
		args := append(stored.args(), c.Author, db.ToMS(t.Now), db.ToMS(t.Now), c.UpdatedBy, t.Revision)
		if _, err := t.Exec(insertChannel, args...); err != nil {
			return err
		}
		if err := end(t, c.Name, "the channel was added later"); err != nil {
			return err
		}
		return changed(t, "channel.add", c.Name, fmt.Sprintf("Created the notification channel %q, which sends to %s.", c.Name, c.Host), nil, snapshotOf(&c))
	})
	return c, err
}

// ChangeChannel applies change to a channel with its secrets whose state is expect, and stores
// the result. change may be called more than once.
func (s *Channels) ChangeChannel(ctx context.Context, by audit.Actor, name string, expect etag.Tag, change func(*notify.Config) error) (c notify.Config, err error) {
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		stored, err := findExpected(t, name, expect)
		if err != nil {
			return err
		}
		if err := unseal(t, stored); err != nil && !errors.Is(err, db.ErrUnsealable) {
			return err
		}
		before, secrets := snapshotOf(&stored.Config), stored.Secrets
		if err := change(&stored.Config); err != nil {
			return err
		}
		after := snapshotOf(&stored.Config)
		c = stored.Config
		if same, err := equal(before, after); err != nil || same && secrets == stored.Secrets {
			if err == nil {
				err = db.ErrUnchanged
			}
			return err
		}
		if err := seal(t, stored); err != nil {
			return err
		}
		args := append(stored.args(), db.ToMS(t.Now), by.Name, t.Revision)
		if _, err := t.Exec(updateChannel, args...); err != nil {
			return err
		}
		c.Updated, c.UpdatedBy, c.Revision = t.Now, by.Name, t.Revision
		summary := fmt.Sprintf("Changed the notification channel %q.", name)
		switch {
		case before.Enabled && !after.Enabled:
			summary = fmt.Sprintf("Disabled the notification channel %q.", name)
			if err := end(t, name, "the channel was disabled"); err != nil {
				return err
			}
		case !before.Enabled && after.Enabled:
			summary = fmt.Sprintf("Enabled the notification channel %q.", name)
			if err := end(t, name, "the channel was disabled"); err != nil {
				return err
			}
		}
		if secrets != stored.Secrets {
			summary += " Its URL or signing key was replaced."
		}
		return changed(t, "channel.update", name, summary, before, after)
	})
	return c, err
}

// equal compares two snapshots in the form of the audit log.
func equal(a, b any) (bool, error) {
	first, err := db.Snapshot(a)
	if err != nil {
		return false, err
	}
	second, err := db.Snapshot(b)
	return first == second, err
}

// DeleteChannel deletes a channel whose state is expect. Its pending deliveries are not sent.
func (s *Channels) DeleteChannel(ctx context.Context, by audit.Actor, name string, expect etag.Tag) error {
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		stored, err := findExpected(t, name, expect)
		if err != nil {
			return err
		}
		if _, err := t.Exec(deleteChannel, name); err != nil {
			return err
		}
		if err := end(t, name, "the channel was deleted"); err != nil {
			return err
		}
		return changed(t, "channel.delete", name, fmt.Sprintf("Deleted the notification channel %q.", name), snapshotOf(&stored.Config), nil)
	})
}

// end ends the pending deliveries of a channel. When it is disabled or deleted, nodes that do not
// know that yet may still add some: it also ends them when it is enabled, or added again.
func end(t *db.Tx, channel, problem string) error {
	_, err := t.Exec(endDeliveries, channel, db.ToMS(t.Now), problem)
	return err
}

// changed records a change and makes all nodes read the channels and silences again.
func changed(t *db.Tx, action, id, summary string, before, after any) error {
	if _, err := t.Exec(channelChanged, t.Revision); err != nil {
		return err
	}
	object, _, _ := strings.Cut(action, ".")
	return t.Record(action, object, id, summary, before, after)
}
