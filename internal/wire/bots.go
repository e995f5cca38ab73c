package wire

// BotsSeen selects the bots that came.
type BotsSeen struct {
	Last Duration `query:"last" json:"-"` // How far back, 1h to 7d; 24h if omitted.
}

// Bots are the bots that came.
type Bots struct {
	Since Time `json:"since"` // the beginning of what is counted, a whole minute, hour or day
	// Unread is how many parts of the time range could not be read. Their requests are missing.
	Unread int `json:"unread"`
	// Requests is how many requests were counted, of these bots and of everybody else.
	Requests int64 `json:"requests"`
	// Items are the bots that came, those with most requests first: one for each way in which requests of
	// a bot were verified.
	Items []Bot `json:"items"`
	// Agents are the bots that the node knows, by operator.
	Agents []KnownBot `json:"agents"`
	// Robots is the part of a robots.txt that says which bots blocks and policies refuse wholly. It says
	// nothing of other bots.
	Robots string `json:"robots"`
	// Lists are the lists of addresses and of keys that operators publish.
	Lists []BotList `json:"lists"`
}

// Bot is what came of one bot.
type Bot struct {
	KnownBot
	// Verified is how its requests were verified: claimed if they were not, spoofed if two ways say that
	// they are those of somebody else, unknown where that was not kept of the rarest of very many requests.
	Verified string `json:"verified" enum:"signature,list,dns,claimed,spoofed,unknown"`
	// Pattern selects these requests, for blocks and policies: bot:openai/gptbot/claimed only those who say
	// to be the bot and are not verified, although the node can verify it, and bot:openai/gptbot all that say
	// to be it.
	Pattern  string `json:"pattern"`
	Requests int64  `json:"requests"` // how many checks it made
	Refused  int64  `json:"refused"`  // how many of them were refused
}

// KnownBot is a bot that says who it is.
type KnownBot struct {
	Bot      string `json:"bot"`      // operator/agent: openai/gptbot; the pattern bot:openai/gptbot selects it
	Operator string `json:"operator"` // the title of the operator
	// Category is what it comes for.
	Category  string `json:"category" enum:"search,ai-training,ai-user,preview,feed,seo,monitor,archive"`
	Docs      string `json:"docs"`       // where the operator describes it
	IsRefused bool   `json:"is_refused"` // a block or a policy refuses every request of it, if it is verified where the node can do so
}

// BotList is a list of addresses, or of keys that verify signatures, that an operator publishes.
type BotList struct {
	URL      string `json:"url"`        // where the operator publishes it
	File     string `json:"file"`       // its last good copy in the folder bots of the data directory
	Prefixes int    `json:"prefixes"`   // 0 before it was first fetched, and of keys
	Keys     int    `json:"keys"`       // by which its bots sign; 0 before they were first fetched, and of addresses
	Fetched  Time   `json:"fetched_at"` // null for never
	Problem  string `json:"problem"`    // why the last fetch changed nothing, "" for none
	// IsIgnored says that its keys verify nobody, since they were not fetched for 7 days.
	IsIgnored bool   `json:"is_ignored"`
	Refused   string `json:"refused"` // why the last signature that names these keys verified nobody, "" for none since the start
}

// PathBots is the path of the bots.
const PathBots = "/v1/bots"

// GetBots says which bots came.
var GetBots = Op[BotsSeen, Bots]{
	ID: "getBots", Route: "GET " + PathBots, Access: "read", Tag: TagHealth,
	Summary: "Show which bots that say who they are came, how they were verified, and how many of their requests were refused.", Answer: "The bots.",
}
