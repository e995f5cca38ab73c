package notify

import "slices"

// Type says how a channel sends.
type Type string

// The types of channels. Those from Ntfy on are services that shoutrrr knows, whose URLs
// have its form.
const (
	Webhook  Type = "webhook"
	Slack    Type = "slack"
	Email    Type = "email"
	Ntfy     Type = "ntfy"
	Gotify   Type = "gotify"
	Discord  Type = "discord"
	Telegram Type = "telegram"
	Pushover Type = "pushover"
)

// TypeInfo is what people read of a type.
type TypeInfo struct {
	Type Type
	Name string // a noun, with what may be behind the type
	URL  string // an example of the form of its URL
}

// types is the only list of the types: the API's enum, the pages, the command line and
// refusals are made from it, and docs/NOTIFICATIONS.md is tested against it.
var types = []TypeInfo{
	{Webhook, "Webhook: JSON by POST", "https://host/path"},
	{Slack, "Slack, Mattermost, Rocket.Chat, or Discord’s /slack", "https://hooks.slack.com/services/..."},
	{Email, "Mail over SMTP", "smtp://user:password@host:587"},
	{Ntfy, "ntfy", "ntfy://user:password@host/topic"},
	{Gotify, "Gotify", "gotify://host/token"},
	{Discord, "Discord", "discord://token@webhook-id"},
	{Telegram, "Telegram", "telegram://token@telegram?chats=@channel"},
	{Pushover, "Pushover", "pushover://shoutrrr:token@user-key"},
}

// Types returns all types, in the order in which they are offered.
func Types() []TypeInfo { return slices.Clone(types) }

// TypeNames returns all types as the API and the command line name them.
func TypeNames() []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t.Type)
	}
	return names
}

// FindType returns what people read of t, false where there is no such type.
func FindType(t Type) (TypeInfo, bool) {
	at := slices.IndexFunc(types, func(one TypeInfo) bool { return one.Type == t })
	if at < 0 {
		return TypeInfo{}, false
	}
	return types[at], true
}
