package wire

// The paths of what is declared here.
const (
	PathNotifications = "/v1/notifications"
	PathChannels      = "/v1/notifications/channels"
	PathSilences      = "/v1/notifications/silences"
)

// TagNotifications is the group of these operations in the OpenAPI document.
var TagNotifications = Tag{"notifications", "Notifications, their channels and silences."}

// Notifications are the newest deliveries, and the channels that there are.
type Notifications struct {
	Channels []string   `json:"channels"` // the names of those that are enabled
	Items    []Delivery `json:"items"`    // the newest first
}

// NotificationList selects the newest deliveries.
type NotificationList struct {
	Limit int `query:"limit" json:"-"` // How many items a page holds, 1 to 1000; 100 if omitted.
}

// Delivery is one notification on its way over one channel.
type Delivery struct {
	ID       int64  `json:"id"`
	Kind     string `json:"kind"` // what it is about, for example attack
	At       Time   `json:"at"`
	Subject  string `json:"subject"` // one line
	Text     string `json:"text"`    // the whole message
	Channel  string `json:"channel"`
	Attempts int    `json:"attempts"` // how often it was tried
	// NextAt is when it is tried next, null once it was sent or given up.
	NextAt   Time       `json:"next_at"`
	SentAt   Time       `json:"sent_at"`   // null until it was sent
	FailedAt Time       `json:"failed_at"` // given up
	Error    NullString `json:"error"`     // of the last attempt
}

// TestRequest asks for a test message over one channel.
type TestRequest struct {
	Channel string `json:"channel"`
}

// TestAnswer is the result of a test message.
type TestAnswer struct {
	Channel string `json:"channel"`
	Sent    bool   `json:"sent"` // whether the message was sent
	// Error is why it was not sent.
	Error NullString `json:"error"`
}

// Channel is one notification channel. No answer contains its URL or signing secret.
type Channel struct {
	Name string `json:"name"`
	Type string `json:"type"` // how it sends
	// Host is where it sends to: the part of its URL that is not secret.
	Host string   `json:"host"`
	From string   `json:"from"` // the sender of mail, otherwise empty
	To   []string `json:"to"`   // the recipients of mail
	// Kinds are the kinds of notifications that it sends; empty: all.
	Kinds      []string `json:"kinds"`
	UrgentOnly bool     `json:"urgent_only"` // of these, only urgent ones
	Enabled    bool     `json:"enabled"`     // false: nothing is sent over it
	// Source is settings for one that the settings of the nodes set up, which only they change.
	Source    string `json:"source" enum:"settings,operator"`
	Author    string `json:"author"` // who created it; empty for one of the settings
	CreatedAt Time   `json:"created_at"`
	UpdatedAt Time   `json:"updated_at"`
	UpdatedBy string `json:"updated_by"`
	// ETag names the channel as it is, for If-Match; null for one of the settings.
	ETag NullString `json:"etag"`
}

// Tag returns the ETag.
func (c Channel) Tag() string { return string(c.ETag) }

// ChannelRequest sets up a notification channel.
type ChannelRequest struct {
	// Name identifies it and never changes: 1 to 32 lower-case letters, digits and hyphens.
	Name string `json:"name"`
	Type string `json:"type"` // of Channel.type
	// URL is where it sends to, with its credentials. It is never shown again.
	URL string `json:"url"`
	// SigningSecret signs what a webhook is sent. It is never shown again.
	SigningSecret string   `json:"signing_secret,omitzero"`
	From          string   `json:"from,omitzero"`        // the sender of mail
	To            []string `json:"to,omitzero"`          // the recipients of mail
	Kinds         []string `json:"kinds,omitzero"`       // the kinds of notifications that it sends; empty: all
	UrgentOnly    bool     `json:"urgent_only,omitzero"` // of these, only urgent ones
	Disabled      bool     `json:"disabled,omitzero"`    // sends nothing until it is enabled
}

// ChannelPatch changes a notification channel.
type ChannelPatch struct {
	Name    string         `path:"name" json:"-"`
	IfMatch string         `header:"If-Match" json:"-" required:"Changing a channel"`
	Type    Change[string] `json:"type,omitzero"` // of Channel.type; another needs a URL
	// URL replaces the one that is kept; empty keeps it.
	URL Change[string] `json:"url,omitzero"`
	// SigningSecret replaces the one that is kept; empty keeps it, and null removes it.
	SigningSecret Change[*string]  `json:"signing_secret,omitzero"`
	From          Change[string]   `json:"from,omitzero"`        // the sender of mail
	To            Change[[]string] `json:"to,omitzero"`          // the recipients of mail
	Kinds         Change[[]string] `json:"kinds,omitzero"`       // empty: all
	UrgentOnly    Change[bool]     `json:"urgent_only,omitzero"` // of these, only urgent ones
	Enabled       Change[bool]     `json:"enabled,omitzero"`     // false: nothing is sent over it
}

// DeleteChannelRequest deletes a notification channel.
type DeleteChannelRequest struct {
	Name    string `path:"name" json:"-"`
	IfMatch string `header:"If-Match" json:"-" required:"Deleting a channel"`
}

// Silence keeps notifications from being sent for a time.
type Silence struct {
	ID        string `json:"id"`
	Channel   string `json:"channel"` // empty: all
	Kind      string `json:"kind"`    // empty: all
	Reason    string `json:"reason"`
	Author    string `json:"author"`
	CreatedAt Time   `json:"created_at"`
	ExpiresAt Time   `json:"expires_at"`
}

// SilenceRequest silences notifications. One of expires_in and expires_at is needed, at
// most 30 days ahead.
type SilenceRequest struct {
	Channel   string   `json:"channel,omitzero"` // omitted: all
	Kind      string   `json:"kind,omitzero"`    // omitted: all
	Reason    string   `json:"reason"`           // shown on every page while it lasts
	ExpiresIn Duration `json:"expires_in,omitzero"`
	ExpiresAt Time     `json:"expires_at,omitzero"` // when it ends by itself; null or omitted if expires_in is sent
}

// The operations of notifications, their channels and silences.
var (
	ListNotifications = Op[NotificationList, Notifications]{
		ID: "listNotifications", Route: "GET " + PathNotifications, Access: "read", Tag: TagNotifications,
		Summary: "List the notifications that were sent or are waiting.", Answer: "The newest.",
	}
	TestNotification = Op[TestRequest, TestAnswer]{
		ID: "testNotification", Route: "POST " + PathNotifications + "/test", Access: "admin", Tag: TagNotifications,
		Summary: "Send a test message over one channel.", Answer: "The result.",
	}
	ListChannels = Op[None, Page[Channel]]{
		ID: "listChannels", Route: "GET " + PathChannels, Access: "read", Tag: TagNotifications,
		Summary: "List the notification channels, without their secrets.", Answer: "The channels, those of the settings first.",
	}
	AddChannel = Op[ChannelRequest, Channel]{
		ID: "addChannel", Route: "POST " + PathChannels, Access: "admin", Tag: TagNotifications, Created: true,
		Summary: "Set up a notification channel.", Answer: "The channel.",
	}
	GetChannel = Op[ByName, Channel]{
		ID: "getChannel", Route: "GET " + PathChannels + "/:name", Access: "read", Tag: TagNotifications,
		Summary: "Show a notification channel, without its secrets.", Answer: "The channel.",
	}
	ChangeChannel = Op[ChannelPatch, Channel]{
		ID: "changeChannel", Route: "PATCH " + PathChannels + "/:name", Access: "admin", Tag: TagNotifications,
		Summary: "Change a notification channel that the settings do not set up and whose ETag If-Match has.", Answer: "The channel.",
	}
	DeleteChannel = Op[DeleteChannelRequest, None]{
		ID: "deleteChannel", Route: "DELETE " + PathChannels + "/:name", Access: "admin", Tag: TagNotifications,
		Summary: "Delete a notification channel that the settings do not set up and whose ETag If-Match has. What waits for it is not sent.",
		Answer:  "It is deleted.",
	}
	ListSilences = Op[None, Page[Silence]]{
		ID: "listSilences", Route: "GET " + PathSilences, Access: "read", Tag: TagNotifications,
		Summary: "List the silences that apply now.", Answer: "The silences.",
	}
	AddSilence = Op[SilenceRequest, Silence]{
		ID: "addSilence", Route: "POST " + PathSilences, Access: "operate", Tag: TagNotifications, Created: true,
		Summary: "Silence notifications until a time; what happens in between is never sent. Silencing everything, or the last alarm of attacks or of faults that is still sent, needs the access admin.",
		Answer:  "The silence.",
	}
	EndSilence = Op[ByID, None]{
		ID: "endSilence", Route: "DELETE " + PathSilences + "/:id", Access: "operate", Tag: TagNotifications,
		Summary: "End a silence before its time. Ending one of everything needs the access admin.", Answer: "It is ended.",
	}
)
