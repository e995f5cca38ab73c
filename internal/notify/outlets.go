package notify

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/etag"
)

// Kinds are the kinds that a channel may be limited to, and that may be silenced.
func Kinds() []Kind {
	return slices.DeleteFunc(slices.Clone(urgency), func(k Kind) bool { return k == Test })
}

// Config is a channel as operators set it up on the pages, by the API or the command
// line, without its secrets.
type Config struct {
	// Name identifies it; it never changes.
	Name string
	Type Type
	// Host is where it sends to, the part of its URL that is no secret.
	Host string
	// From and To are the sender and the recipients of mail, empty for other types.
	From string
	To   []string
	// Kinds are what it sends, all for none.
	Kinds []Kind
	// UrgentOnly limits it further to what is urgent, see Kind.Urgent.
	UrgentOnly bool
	Disabled   bool
	Author     string
	Created    time.Time
	Updated    time.Time
	UpdatedBy  string
	Revision   int64 // of the change that made it as it is, 0 for one of the settings
	// Secrets are read for sending only, empty everywhere else.
	Secrets Secrets
	// Broken is why the secrets cannot be read, "" if they can.
	Broken string
}

// Takes reports whether notifications of a kind are sent over it while it is enabled.
func (c *Config) Takes(k Kind) bool { return takes(c.Kinds, c.UrgentOnly, k) }

func takes(kinds []Kind, urgentOnly bool, k Kind) bool {
	return (len(kinds) == 0 || slices.Contains(kinds, k)) && (!urgentOnly || k.Urgent())
}

// Secrets are what no front end shows again.
type Secrets struct {
	// URL is where messages are sent, with the credentials for it.
	URL string `json:"url"`
	// Signing is the secret that signs the messages of a webhook, "" for none.
	Signing string `json:"signing,omitempty"`
}

// Silence keeps messages from being sent for a time.
type Silence struct {
	ID string
	// Channel and Kind limit it; empty means all.
	Channel string
	Kind    Kind
	Reason  string
	Author  string
	Created time.Time
	Until   time.Time
}

// CoversEverything reports whether no channel sends anything while it applies.
func (s *Silence) CoversEverything() bool { return s.Channel == "" && s.Kind == "" }

// ActiveAt reports whether it still applies.
func (s *Silence) ActiveAt(now time.Time) bool { return now.Before(s.Until) }

// Silences reports whether s keeps messages of a kind from being sent over a channel.
func (s *Silence) Silences(channel string, kind Kind, now time.Time) bool {
	return s.ActiveAt(now) && (s.Channel == "" || s.Channel == channel) && (s.Kind == "" || s.Kind == kind)
}

// Outlet is a channel and what it is for.
type Outlet struct {
	Channel
	Kinds      []Kind // empty: all
	UrgentOnly bool
}

// Takes reports whether notifications of a kind are sent over it.
func (o Outlet) Takes(k Kind) bool { return takes(o.Kinds, o.UrgentOnly, k) }

// outlets are what a dispatcher sends over at one time.
type outlets struct {
	all      []Outlet
	silences []Silence
}

func (o *outlets) find(name string) (Outlet, bool) {
	at := slices.IndexFunc(o.all, func(one Outlet) bool { return one.Name() == name })
	if at < 0 {
		return Outlet{}, false
	}
	return o.all[at], true
}

// takers returns the names of the channels for a kind.
func (o *outlets) takers(k Kind) []string {
	var names []string
	for _, one := range o.all {
		if one.Takes(k) {
			names = append(names, one.Name())
		}
	}
	return names
}

// silenced returns the silence that applies, nil for none.
func (o *outlets) silenced(channel string, k Kind, now time.Time) *Silence {
	for i := range o.silences {
		if o.silences[i].Silences(channel, k, now) {
			return &o.silences[i]
		}
	}
	return nil
}

// Subject says what s silences, for people.
func (s *Silence) Subject() string {
	subject := "all notifications"
	if s.Kind != "" {
		subject = "notifications of the kind " + string(s.Kind)
	}
	if s.Channel != "" {
		subject += " over " + s.Channel
	}
	return subject
}

// TagOf names the state of a channel that operators set up: one that is set up again under
// the same name has another.
func TagOf(c *Config) etag.Tag {
	return etag.Of(c.Name, c.Revision, c.Created.UnixMilli(), c.Updated.UnixMilli())
}
