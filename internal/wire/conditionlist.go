package wire

// PathLists is the path of what is declared here.
const PathLists = "/v1/lists"

// ConditionList is a named list of patterns that conditions of policies contain as "@" and its name.
type ConditionList struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Description string   `json:"description"` // what it is for, and what needs care
	Attribute   string   `json:"attribute"`   // the attribute of a request whose conditions may contain it, such as path
	AsSent      bool     `json:"as_sent"`     // also compared with the target as it was sent and after each decoding, with its query
	Source      string   `json:"source"`      // where its facts are from
	Date        string   `json:"date"`        // the day of its last change, such as 2026-11-28
	Patterns    []string `json:"patterns"`    // each as in a condition
}

// The operations of lists.
var (
	ListConditionLists = Op[None, Page[ConditionList]]{
		ID: "listConditionLists", Route: "GET " + PathLists, Access: "read", Tag: TagPolicies,
		Summary: "List the lists of patterns that conditions may contain.", Answer: "The lists, by name.",
		Doc: "A condition of a policy contains a list as `@secrets`, and excludes what one of its patterns matches by a pattern with `not`.",
	}
	GetConditionList = Op[ByName, ConditionList]{
		ID: "getConditionList", Route: "GET " + PathLists + "/:name", Access: "read", Tag: TagPolicies,
		Summary: "Show a list of patterns that conditions may contain.", Answer: "The list.",
	}
)
