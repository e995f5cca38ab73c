package eventlog

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/wire"
)

// ecsVersion is the version of the Elastic Common Schema whose field names are used:
// https://www.elastic.co/docs/reference/ecs/ecs-field-reference
const ecsVersion = "9.0.0"

// record is a line. Fields that it does not have are omitted; Stint's own fields are in the field set stint.
type record struct {
	Timestamp wire.Time `json:"@timestamp"`
	Message   string    `json:"message"`
	ECS       struct {
		Version string `json:"version"`
	} `json:"ecs"`
	Event    eventFields  `json:"event"`
	Observer observer     `json:"observer"`
	Rule     *ruleFields  `json:"rule,omitzero"`
	Source   *source      `json:"source,omitzero"`
	HTTP     *httpFields  `json:"http,omitzero"`
	URL      *urlFields   `json:"url,omitzero"`
	Agent    *agentFields `json:"user_agent,omitzero"`
	User     *user        `json:"user,omitzero"`
	Stint    stintFields  `json:"stint"`
}

type eventFields struct {
	ID       string   `json:"id,omitzero"`
	Kind     string   `json:"kind"`
	Category []string `json:"category"`
	Type     []string `json:"type"`
	Action   string   `json:"action"`
	Outcome  string   `json:"outcome,omitzero"`
	Dataset  string   `json:"dataset"`
	Module   string   `json:"module"`
}

type (
	observer struct {
		Vendor   string `json:"vendor"`
		Product  string `json:"product"`
		Hostname string `json:"hostname"`
		Version  string `json:"version"`
	}
	ruleFields struct {
		Name    string `json:"name"`
		Ruleset string `json:"ruleset,omitzero"`
	}
	source struct {
		IP string `json:"ip"`
	}
	httpFields struct {
		Request struct {
			Method string `json:"method"`
		} `json:"request"`
	}
	urlFields struct {
		Path string `json:"path"`
	}
	agentFields struct {
		Original string `json:"original"`
	}
	user struct {
		Name string `json:"name"`
	}
	stintFields struct {
		Key          string    `json:"key,omitzero"`
		Decision     string    `json:"decision,omitzero"`
		Policy       string    `json:"policy,omitzero"`
		Rule         string    `json:"rule,omitzero"`
		Block        string    `json:"block,omitzero"`
		Refusal      string    `json:"refusal,omitzero"`
		RetryAt      wire.Time `json:"retry_at,omitzero"`
		Reported     string    `json:"reported,omitzero"`
		Caller       string    `json:"caller,omitzero"`
		Degraded     string    `json:"degraded,omitzero"`
		Shadow       string    `json:"shadow,omitzero"`
		ShadowPolicy string    `json:"shadow_policy,omitzero"`
		Object       string    `json:"object,omitzero"`
		ObjectID     string    `json:"object_id,omitzero"`
		Actor        string    `json:"actor,omitzero"`
		Omitted      int64     `json:"omitted,omitzero"`
	}
)

// Bounds of texts that clients choose, in bytes. They are halved until a line has at most maxPayload bytes: what
// must be escaped takes more than one byte.
const maxText = 512

// clip shortens a text to a number of bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most-len("…")]
	for !utf8.ValidString(text) && text != "" { // a rune is cut, or the text is no UTF-8
		_, size := utf8.DecodeLastRuneInString(text)
		if r, _ := utf8.DecodeLastRuneInString(text); r != utf8.RuneError {
			break
		}
		text = text[:len(text)-size]
	}
	return text + "…"
}

func (l *Log) record(at time.Time, dataset string) record {
	r := record{Timestamp: wire.At(at), Observer: observer{Vendor: "Stint", Product: "Stint", Hostname: l.o.Node, Version: l.o.Version}}
	r.ECS.Version = ecsVersion
	r.Event = eventFields{Kind: "event", Dataset: "stint." + dataset, Module: "stint"}
	return r
}

// encode appends a record as a line. Characters that terminals act on are escaped.
func encode(to []byte, r *record) []byte {
	text, err := json.Marshal(r, jsontext.AllowInvalidUTF8(true))
	if err != nil { // no field can fail
		text = fmt.Appendf(nil, `{"message":%q}`, err)
	}
	for _, c := range string(text) {
		if c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == utf8.RuneError {
			to = fmt.Appendf(to, `\u%04x`, c)
			continue
		}
		to = utf8.AppendRune(to, c)
	}
	return append(to, '\n')
}

// fit appends the line that made returns for the largest bound of texts with which it fits.
func fit(to []byte, made func(most int) *record) []byte {
	for most := maxText; ; most /= 2 {
		if with := encode(to, made(most)); len(with)-len(to) <= maxPayload || most < 16 {
			return with
		}
	}
}

// decision appends the line of a decision.
func (l *Log) decision(to []byte, e *entry) []byte {
	id := l.run + "-" + strconv.FormatUint(l.count.Add(1), 10)
	return fit(to, func(most int) *record { return l.decided(e, id, most) })
}

// decided returns the record of a decision, with texts of at most so many bytes.
func (l *Log) decided(e *entry, id string, maxText int) *record {
	r := l.record(e.At, "decision")
	r.Event.ID, r.Event.Action = id, string(e.Outcome)
	r.Event.Category, r.Event.Type, r.Event.Outcome = []string{"web"}, []string{"access", "denied"}, "failure"
	if e.Outcome == gate.Allowed {
		r.Event.Type, r.Event.Outcome = []string{"access", "allowed"}, "success"
	}
	s := &r.Stint
	s.Key, s.Decision, s.Policy, s.Rule, s.Block = clip(e.Key.String(), maxText), string(e.Outcome), e.Policy, e.Rule, e.BlockID
	s.RetryAt, s.Reported, s.Caller, s.Degraded = wire.At(e.RetryAt), clip(e.Reported, maxText), clip(e.Source, maxText), clip(e.Degraded, maxText)
	if e.Outcome != gate.Allowed {
		s.Refusal = e.Refusal
	}
	s.Shadow, s.ShadowPolicy = string(e.Shadow), e.ShadowPolicy
	if e.Rule != "" || e.Policy != "" {
		r.Rule = &ruleFields{Name: e.Rule, Ruleset: e.Policy}
		if e.Rule == "" {
			r.Rule = &ruleFields{Name: e.Policy}
		}
	}
	if network, is := e.Key.Network(); is && network.IsSingleIP() {
		r.Source = &source{network.Addr().String()}
	}
	if e.Method != "" {
		r.HTTP = new(httpFields)
		r.HTTP.Request.Method = clip(e.Method, 32)
	}
	if e.Path != "" {
		r.URL = &urlFields{clip(e.Path, maxText)}
	}
	if e.agent != "" {
		r.Agent = &agentFields{clip(e.agent, maxText)}
	}
	r.Message = sentence(e, maxText)
	return &r
}

// sentence says what was decided.
func sentence(e *entry, maxText int) string {
	text := clip(e.Key.String(), maxText) + " " + map[gate.Outcome]string{
		gate.Allowed: "was allowed", gate.Limited: "was limited", gate.Blocked: "is blocked", gate.Challenged: "was challenged", gate.Unavailable: "was refused in an outage",
	}[e.Outcome]
	if e.Reported != "" {
		text = "a report of " + clip(e.Reported, maxText) + " by " + clip(e.Key.String(), maxText) + " was counted"
		if e.Outcome != gate.Allowed {
			text = "a report of " + clip(e.Reported, maxText) + " by " + clip(e.Key.String(), maxText) + " found no room"
		}
	}
	if e.Rule != "" {
		text += " by " + e.Rule
	}
	if e.Policy != "" {
		text += " of the policy " + e.Policy
	}
	return text
}

// changeTypes are the types of events by the second word of an action of the audit.
var changeTypes = map[string]string{"add": "creation", "create": "creation", "end": "deletion", "delete": "deletion", "remove": "deletion", "revoke": "deletion"}

// change appends the line of a change, or of a notice that changes are missing. What was before and after is in the audit.
func (l *Log) change(to []byte, e *events.Event) []byte {
	if e.Entry == nil {
		r := l.record(e.At, "audit")
		r.Event.Category, r.Event.Type, r.Event.Action = []string{"configuration"}, []string{"info"}, "omitted"
		r.Message, r.Stint.Omitted = e.Text, e.Skipped
		return encode(to, &r)
	}
	return fit(to, func(most int) *record { return l.changed(e.Entry, most) })
}

// changed returns the record of a change, with texts of at most so many bytes.
func (l *Log) changed(a *audit.Record, maxText int) *record {
	r := l.record(a.At, "audit")
	_, did, _ := strings.Cut(a.Action, ".")
	kind, known := changeTypes[did]
	if !known {
		kind = "change"
	}
	r.Event.ID, r.Event.Action, r.Event.Category, r.Event.Type = "audit-"+strconv.FormatInt(a.ID, 10), a.Action, []string{"configuration"}, []string{kind}
	if a.Object == "user" || a.Object == "token" || a.Object == "session" {
		r.Event.Category = []string{"iam"}
	}
	r.Event.Outcome = "success"
	r.Message = clip(a.Summary, 2*maxText)
	s := &r.Stint
	s.Object, s.ObjectID, s.Actor = a.Object, clip(a.ObjectID, maxText), string(a.Actor.Kind)
	if a.Actor.Kind == audit.User || a.Actor.Kind == audit.Token {
		r.User = &user{clip(a.Actor.Name, maxText)}
	}
	if address, err := netip.ParseAddr(a.Actor.Address); err == nil {
		r.Source = &source{address.String()}
	}
	return &r
}

// missing returns the line that says how many events are missing before the next.
func (l *Log) missing(count int64) []byte {
	r := l.record(l.o.Now(), "decision")
	r.Event.Category, r.Event.Type, r.Event.Action = []string{"web"}, []string{"info"}, "omitted"
	r.Message = fmt.Sprintf("%d events are missing here: there were more than could be written or kept", count)
	r.Stint.Omitted = count
	return encode(nil, &r)
}
