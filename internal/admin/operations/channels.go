package operations

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/wire"
)

// Channel is a notification channel as front ends show it.
type Channel struct {
	notify.Config
	// Preset means that the channel is defined by the settings and can only be changed there.
	Preset bool
	// Settings are the variables that define a preset channel.
	Settings []string
}

// Types of package notify that front ends use.
type (
	// NotificationKind is what a notification is about.
	NotificationKind = notify.Kind
	// ChannelType is a way in which a channel sends.
	ChannelType = notify.TypeInfo
	// Silence keeps messages from being sent for a time.
	Silence = notify.Silence
)

// ChannelStore stores the channels that operators created, and the silences. It records changes
// in the audit log, and this node knows them when a method returns. Changes that expect another
// state of a channel fail as etag.Check does.
type ChannelStore interface {
	FindChannels(ctx context.Context) ([]notify.Config, error)
	FindChannel(ctx context.Context, name string) (notify.Config, error)
	AddChannel(ctx context.Context, by audit.Actor, c notify.Config) (notify.Config, error)
	ChangeChannel(ctx context.Context, by audit.Actor, name string, expect etag.Tag, change func(*notify.Config) error) (notify.Config, error)
	DeleteChannel(ctx context.Context, by audit.Actor, name string, expect etag.Tag) error
	FindSilences(ctx context.Context) ([]notify.Silence, error)
	// AddSilence stores a silence unless check refuses it. check gets the active silences.
	AddSilence(ctx context.Context, by audit.Actor, s notify.Silence, check func(active []notify.Silence) error) (notify.Silence, error)
	// EndSilence ends a silence unless check refuses it.
	EndSilence(ctx context.Context, by audit.Actor, id string, check func(notify.Silence) error) (notify.Silence, error)
}

// ChannelBuilder builds channels.
type ChannelBuilder interface {
	// Build returns the channel and the host that it sends to. Its errors are *fault.Error and
	// contain no secret.
	Build(c notify.Config) (notify.Channel, string, error)
}

// Limits of texts that operators enter.
const (
	maxURL         = 2000
	maxRecipients  = 20
	maxMailAddress = 320 // with a name
)

var channelName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// ChannelTypes returns all types of channels, with their descriptions.
func ChannelTypes() []ChannelType { return notify.Types() }

// ChannelTypeNames returns the names of all types of channels in requests.
func ChannelTypeNames() []string { return notify.TypeNames() }

// NotificationKinds returns all kinds of notifications.
func NotificationKinds() []NotificationKind { return notify.Kinds() }

// ListChannels returns the channels of the settings and then the others by name, without
// secrets.
func (n *Notifications) ListChannels(ctx context.Context, _ admin.Caller, _ wire.None) (wire.Page[wire.Channel], error) {
	all, err := n.AllChannels(ctx)
	return wire.WholePage(all, wireChannel), err
}

// AllChannels is ListChannels with what the settings say of theirs.
func (n *Notifications) AllChannels(ctx context.Context) ([]Channel, error) {
	stored, err := n.Channels.FindChannels(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(n.Preset)
	for _, c := range stored {
		all = append(all, Channel{Config: c})
	}
	return all, nil
}

// wireChannel returns a channel as operators see it, without its secrets.
func wireChannel(c Channel) wire.Channel {
	out := wire.Channel{
		Name: c.Name, Type: string(c.Type), Host: c.Host, From: c.From, To: append([]string{}, c.To...), Kinds: wire.Texts(c.Kinds), UrgentOnly: c.UrgentOnly,
		Enabled: !c.Disabled, Source: "operator", Author: c.Author, CreatedAt: wire.At(c.Created), UpdatedAt: wire.At(c.Updated), UpdatedBy: c.UpdatedBy,
	}
	if c.Preset {
		out.Source = "settings"
	} else {
		out.ETag = wire.NullString(notify.TagOf(&c.Config))
	}
	return out
}

func shownChannel(c notify.Config, err error) (wire.Channel, error) {
	return wireChannel(Channel{Config: c}), err
}

// FindChannel returns a channel without its secrets.
func (n *Notifications) FindChannel(ctx context.Context, _ admin.Caller, r wire.ByName) (wire.Channel, error) {
	if preset := n.preset(r.Name); preset != nil {
		return wireChannel(*preset), nil
	}
	return shownChannel(n.Channels.FindChannel(ctx, r.Name))
}

func (n *Notifications) preset(name string) *Channel {
	at := slices.IndexFunc(n.Preset, func(c Channel) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &n.Preset[at]
}

// changeable returns an error if a channel is defined by the settings.
func (n *Notifications) changeable(name string) error {
	if n.preset(name) != nil {
		return &fault.Error{Code: fault.Conflict, Message: fmt.Sprintf("The channel %s is set up by the settings of the nodes; change it there.", name)}
	}
	return nil
}

// AddChannel creates a channel.
func (n *Notifications) AddChannel(ctx context.Context, by admin.Caller, r wire.ChannelRequest) (wire.Channel, error) {
	if !channelName.MatchString(r.Name) {
		return wire.Channel{}, fault.Field("name", "must be 1 to 32 lower-case letters, digits and hyphens, and cannot begin with a hyphen")
	}
	// The names of the settings' channels, on this node or on another one.
	if slices.Contains([]string{"webhook", "slack", "email"}, r.Name) {
		return wire.Channel{}, fault.Field("name", "is reserved for a channel of the settings; choose another")
	}
	c := notify.Config{Name: r.Name}
	if err := n.apply(&c, wire.ChannelPatch{
		Type: wire.To(r.Type), URL: wire.To(r.URL), SigningSecret: wire.To(&r.SigningSecret), From: wire.To(r.From), To: wire.To(r.To), Kinds: wire.To(r.Kinds),
		UrgentOnly: wire.To(r.UrgentOnly), Enabled: wire.To(!r.Disabled),
	}); err != nil {
		return wire.Channel{}, err
	}
	c, err := n.Channels.AddChannel(ctx, by.Actor, c)
	n.changed(ctx, err)
	return shownChannel(c, err)
}

// ChangeChannel changes a channel whose ETag the request has.
func (n *Notifications) ChangeChannel(ctx context.Context, by admin.Caller, r wire.ChannelPatch) (wire.Channel, error) {
	if err := n.changeable(r.Name); err != nil {
		return wire.Channel{}, err
	}
	c, err := n.Channels.ChangeChannel(ctx, by.Actor, r.Name, etag.Tag(r.IfMatch), func(c *notify.Config) error { return n.apply(c, r) })
	n.changed(ctx, err)
	return shownChannel(c, err)
}

// DeleteChannel deletes a channel whose ETag the request has. Its pending deliveries are not sent.
func (n *Notifications) DeleteChannel(ctx context.Context, by admin.Caller, r wire.DeleteChannelRequest) (wire.None, error) {
	if err := n.changeable(r.Name); err != nil {
		return wire.None{}, err
	}
	err := n.Channels.DeleteChannel(ctx, by.Actor, r.Name, etag.Tag(r.IfMatch))
	n.changed(ctx, err)
	return wire.None{}, err
}

// apply applies set to c and checks the result.
func (n *Notifications) apply(c *notify.Config, set wire.ChannelPatch) error {
	former := c.Type
	if set.Type.Given {
		c.Type = notify.Type(set.Type.Value)
	}
	if _, known := notify.FindType(c.Type); !known {
		return fault.Field("type", "must be one of %s", strings.Join(ChannelTypeNames(), ", "))
	}
	if err := setSecrets(c, former, set); err != nil {
		return err
	}
	if c.Type != notify.Email {
		c.From, c.To = "", nil
	}
	if set.From.Given {
		c.From = strings.TrimSpace(set.From.Value)
	}
	if set.To.Given {
		c.To = cleaned(set.To.Value)
	}
	if len(c.To) > maxRecipients {
		return fault.Field("to", "has %d recipients; at most %d are allowed", len(c.To), maxRecipients)
	}
	if err := fault.CheckLine("from", c.From, maxMailAddress); err != nil {
		return err
	}
	for _, line := range c.To {
		if err := fault.CheckLine("to", line, maxMailAddress); err != nil {
			return err
		}
	}
	if set.Kinds.Given {
		c.Kinds = nil
		for _, k := range cleaned(set.Kinds.Value) {
			if !slices.Contains(notify.Kinds(), notify.Kind(k)) {
				return fault.Field("kinds", "may have %s; none means all", join(notify.Kinds()))
			}
			if !slices.Contains(c.Kinds, notify.Kind(k)) {
				c.Kinds = append(c.Kinds, notify.Kind(k))
			}
		}
	}
	if set.UrgentOnly.Given {
		c.UrgentOnly = set.UrgentOnly.Value
	}
	if len(c.Kinds) > 0 && c.UrgentOnly && !slices.ContainsFunc(c.Kinds, notify.Kind.Urgent) {
		return fault.Field("kinds", "has no urgent kind, so that nothing would be sent; choose one or send what is not urgent too")
	}
	if set.Enabled.Given {
		c.Disabled = !set.Enabled.Value
	}
	_, host, err := n.Builder.Build(*c)
	c.Host = host
	return err
}

// setSecrets sets new secrets. A channel whose type changes needs a new URL.
func setSecrets(c *notify.Config, former notify.Type, set wire.ChannelPatch) error {
	url, signing, isUnsigned := set.URL.Value, "", false
	if set.SigningSecret.Given {
		if isUnsigned = set.SigningSecret.Value == nil; !isUnsigned {
			signing = *set.SigningSecret.Value
		}
	}
	for field, secret := range map[string]string{"url": url, "signing_secret": signing} {
		if err := fault.CheckLine(field, secret, maxURL); err != nil {
			return err
		}
	}
	if c.Type != former {
		c.Secrets = notify.Secrets{}
	}
	if url != "" {
		c.Secrets.URL = strings.TrimSpace(url)
	}
	switch {
	case signing != "":
		c.Secrets.Signing = signing
	case isUnsigned:
		c.Secrets.Signing = ""
	}
	if c.Secrets.URL == "" {
		return fault.Field("url", "is missing; a channel of another type or with unreadable secrets needs it again")
	}
	return nil
}

// cleaned returns the non-empty texts.
func cleaned(all []string) []string {
	var kept []string
	for _, one := range all {
		if one = strings.TrimSpace(one); one != "" {
			kept = append(kept, one)
		}
	}
	return kept
}

func join[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return strings.Join(texts, ", ")
}
