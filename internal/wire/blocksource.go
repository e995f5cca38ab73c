package wire

// BlockSource is a list that is pulled again and again, and whose rows block or exempt.
type BlockSource struct {
	Name      string   `json:"name"`                                            // unique; the source of its rows is "list/" and this name
	URL       string   `json:"url"`                                             // where the list is
	As        string   `json:"as" enum:"block,challenge,exempt,shadow,attack"`  // block, challenge, exempt, shadow: counted, and nothing is refused, or attack: block while an attack goes on
	Format    string   `json:"format"`                                          // auto, csv, json or plain
	Column    string   `json:"column"`                                          // where the patterns are in a table of another form; empty: the list says it
	HasHeader bool     `json:"has_header"`                                      // whether the requests have a header with a secret, which is never shown
	Every     Duration `json:"every"`                                           // how often it is asked for
	State     string   `json:"state" enum:"waiting,current,failing,stale,held"` // waiting, current, failing, stale or held
	Rows      int      `json:"rows"`                                            // in force
	Invalid   int      `json:"invalid"`                                         // rows of the last pull that cannot be read
	// LeftOut counts the rows that no list may have: private and reserved addresses, those of this
	// installation, and networks of more than 16 million addresses.
	LeftOut   int        `json:"left_out"`
	Notes     []string   `json:"notes"`      // about the first of the rows that are invalid or left out
	Refused   int64      `json:"refused"`    // checks of the last day that the rows refused
	CheckedAt Time       `json:"checked_at"` // when it was last asked for
	PulledAt  Time       `json:"pulled_at"`  // when it was last read whole or had not changed
	ChangedAt Time       `json:"changed_at"` // when its rows last changed
	NextAt    Time       `json:"next_at"`    // when it is asked for again
	Error     NullString `json:"error"`      // of the last try
	Held      *HeldPull  `json:"held"`       // what waits for agreement, null for nothing
	Author    string     `json:"author"`     // who added it
	CreatedAt Time       `json:"created_at"` // when it was added
}

// Location is its path.
func (s BlockSource) Location() string { return PathBlockSources + "/" + s.Name }

// HeldPull is a pull that adds or ends so much that an operator must agree first. The rows before it
// are in force until then.
type HeldPull struct {
	Since Time `json:"since"` // when a pull was first held
	Rows  int  `json:"rows"`  // rows of the pull
	Added int  `json:"added"` // rows that are not in force
	Ended int  `json:"ended"` // rows that are in force and not in the pull
	// Ratio is how much of the last day's allowed checks the added rows would have refused, 0 to 1;
	// null if that is not known.
	Ratio *float64 `json:"ratio"`
}

// BlockSourceRequest adds a source.
type BlockSourceRequest struct {
	Name   string   `json:"name"`                                                    // 1 to 50 of a-z, 0-9 and hyphens
	URL    string   `json:"url"`                                                     // https or http; omitted for one of the catalogue
	Every  Duration `json:"every,omitzero"`                                          // at least 5m; 1h if omitted, or as the catalogue says
	As     string   `json:"as,omitzero" enum:"block,challenge,exempt,shadow,attack"` // block, challenge, exempt, shadow or attack; block if omitted, or as the catalogue says
	Format string   `json:"format,omitzero"`                                         // auto, csv, json or plain; auto if omitted
	Column string   `json:"column,omitzero"`                                         // where the patterns are in a table of another form
	Header string   `json:"header,omitzero"`                                         // a header of the requests, such as "Key: abc"; never shown again
}

// KnownList is a list of the catalogue. None is pulled until somebody adds it.
type KnownList struct {
	Name    string   `json:"name"`    // of the source that adding it makes
	Title   string   `json:"title"`   // for people
	URL     string   `json:"url"`     // where the list is
	As      string   `json:"as"`      // how it is meant to be used
	Every   Duration `json:"every"`   // no more often than its publisher allows
	Column  string   `json:"column"`  // where the patterns are in a table of another form; empty: the list says it
	License string   `json:"license"` // what its publisher permits
	Advice  string   `json:"advice"`  // what it has, and what needs care
	Header  string   `json:"header"`  // the name of a header that its publisher needs; empty: none
	Added   bool     `json:"added"`   // whether a source has its URL
}

// The operations of the sources of blocks and exemptions.
var (
	ListBlockSources = Op[None, Page[BlockSource]]{
		ID: "listBlockSources", Route: "GET " + PathBlockSources, Access: "read", Tag: TagBlocks,
		Summary: "List the lists that are pulled.", Answer: "The sources, by name.",
	}
	GetBlockSource = Op[ByName, BlockSource]{
		ID: "getBlockSource", Route: "GET " + PathBlockSources + "/:name", Access: "read", Tag: TagBlocks,
		Summary: "Show a list that is pulled.", Answer: "The source.",
	}
	AddBlockSource = Op[BlockSourceRequest, BlockSource]{
		ID: "addBlockSource", Route: "POST " + PathBlockSources, Access: "admin", Tag: TagBlocks, Created: true, Slow: true,
		Summary: "Add a list, and pull it at once.", Answer: "The source; its error says if it could not be pulled.",
	}
	PullBlockSource = Op[ByName, BlockSource]{
		ID: "pullBlockSource", Route: "POST " + PathBlockSources + "/:name/pull", Access: "operate", Tag: TagBlocks, Slow: true, Conflict: true,
		Summary: "Pull a list now.", Answer: "The source; its error says if it could not be pulled.",
	}
	AgreeBlockSource = Op[ByName, BlockSource]{
		ID: "agreeBlockSource", Route: "POST " + PathBlockSources + "/:name/agree", Access: "operate", Tag: TagBlocks, Slow: true, Conflict: true,
		Summary: "Agree to a pull that is held because it changes much: the list is pulled again and put in force.", Answer: "The source.",
		Doc: "A list whose size has changed by more than a tenth since it was held is held again.",
	}
	RemoveBlockSource = Op[ByName, None]{
		ID: "removeBlockSource", Route: "DELETE " + PathBlockSources + "/:name", Access: "admin", Tag: TagBlocks, Slow: true, Conflict: true,
		Summary: "Remove a list: its rows end, unless another source holds them too.", Answer: "It is removed.",
	}
	ListKnownLists = Op[None, Page[KnownList]]{
		ID: "listKnownLists", Route: "GET " + PathKnownLists, Access: "read", Tag: TagBlocks,
		Summary: "List well-known lists, with their licences and advice.", Answer: "The catalogue.",
		Doc: "None of them is pulled until somebody adds it as a source.",
	}
)

// The paths of sources.
const (
	PathBlockSources = "/v1/block-sources"
	PathKnownLists   = "/v1/known-lists"
)
