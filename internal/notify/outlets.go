package notify

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/etag"
)

// Kinds returns the kinds to which a channel can be limited, and that can be silenced.
func Kinds() []Kind {
	return slices.DeleteFunc(slices.Clone(urgency), func(k Kind) bool { return k == Test })
}

// Config is a channel that operators created with the pages, the API or the command line,
// without its secrets.
type Config struct {
	// Name identifies the channel; it never changes.
	Name string
	Type Type
	// Host is the host of its URL, which is not secret.
	Host string
	// From and To are the sender and the recipients of mail, empty for other types.
	From string
	To   []string
	// Kinds are the kinds that it sends; empty means all.
	Kinds []Kind
	// UrgentOnly limits it further to urgent kinds; see Kind.Urgent.
	UrgentOnly bool
	Disabled   bool
	Author     string
	Created    time.Time
	Updated    time.Time
	UpdatedBy  string
	Revision   int64 // of the last change; 0 for a channel of the settings
	// Secrets are set only for sending, and empty otherwise.
	Secrets Secrets
	// Broken is why the secrets cannot be read, "" if they can.
	Broken string
}

// Takes reports whether the channel, if enabled, sends notifications of a kind.
func (c *Config) Takes(k Kind) bool { return takes(c.Kinds, c.UrgentOnly, k) }

func takes(kinds []Kind, urgentOnly bool, k Kind) bool {
	return (len(kinds) == 0 || slices.Contains(kinds, k)) && (!urgentOnly || k.Urgent())
}

// Secrets are never shown by a front end.
type Secrets struct {
	// URL is the target of messages, with its credentials.
	URL string `json:"url"`
	// Signing is the secret that signs the messages of a webhook, "" for none.
	Signing string `json:"signing,omitempty"`
}

// Silence prevents messages from being sent for a time.
type Silence struct {
	ID string
	// Channel and Kind limit the silence; empty means all.
	Channel string
	Kind    Kind
	Reason  string
	Author  string
	Created time.Time
	Until   time.Time
}

// CoversEverything reports whether the silence applies to all channels and kinds.
func (s *Silence) CoversEverything() bool { return s.Channel == "" && s.Kind == "" }

// ActiveAt reports whether the silence has not ended.
func (s *Silence) ActiveAt(now time.Time) bool { return now.Before(s.Until) }

// Silences reports whether s prevents messages of a kind over a channel.
func (s *Silence) Silences(channel string, kind Kind, now time.Time) bool {
	return s.ActiveAt(now) && (s.Channel == "" || s.Channel == channel) && (s.Kind == "" || s.Kind == kind)
}

// Outlet is a channel with the kinds that it sends.
type Outlet struct {
	Channel
	Kinds      []Kind // empty: all
	UrgentOnly bool
}

// Takes reports whether the outlet sends notifications of a kind.
func (o Outlet) Takes(k Kind) bool { return takes(o.Kinds, o.UrgentOnly, k) }

// outlets are the present channels and silences of a dispatcher.
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

// takers returns the names of the channels that send a kind.
func (o *outlets) takers(k Kind) []string {
	var names []string
	for _, one := range o.all {
		if one.Takes(k) {
			names = append(names, one.Name())
		}
	}
	return names
}

// silenced returns the silence that applies to a channel and kind, nil for none.
func (o *outlets) silenced(channel string, k Kind, now time.Time) *Silence {
	for i := range o.silences {
		if o.silences[i].Silences(channel, k, now) {
			return &o.silences[i]
		}
	}
	return nil
}

// Subject describes for people what s silences.
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

// TagOf identifies the state of a channel that operators created. A channel that was deleted
// and created again with the same name has a different tag.
func TagOf(c *Config) etag.Tag {
	return etag.Of(c.Name, c.Revision, c.Created.UnixMilli(), c.Updated.UnixMilli())
}
