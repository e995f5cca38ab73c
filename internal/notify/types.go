package notify

import "slices"

// Type is the way in which a channel sends.
type Type string

// The types of channels. Those from Ntfy on are services supported by shoutrrr, with its URL
// syntax.
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

// TypeInfo describes a type for people.
type TypeInfo struct {
	Type Type
	Name string // a noun, with what may follow the type
	URL  string // an example of its URLs
}

// types is the only list of the types. The API's enum, the pages, the command line and error
// messages derive from it, and a test compares docs/NOTIFICATIONS.md with it.
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

// Types returns all types, in display order.
func Types() []TypeInfo { return slices.Clone(types) }

// TypeNames returns the names of all types in the API and the command line.
func TypeNames() []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t.Type)
	}
	return names
}

// FindType returns the description of t, false if there is no such type.
func FindType(t Type) (TypeInfo, bool) {
	at := slices.IndexFunc(types, func(one TypeInfo) bool { return one.Type == t })
	if at < 0 {
		return TypeInfo{}, false
	}
	return types[at], true
}
