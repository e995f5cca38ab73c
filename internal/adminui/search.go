package adminui

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// searchHandler redirects from a typed key or id to its page.
type searchHandler struct {
	*site.Site
	detection *admin.Detection // nil if offences are not counted
	entries   *admin.Entries
}

func (h *searchHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/go", identity.Read, h.goTo),
		h.Get("/go/keys", identity.Read, h.suggestKeys),
		h.Get("/go/policies", identity.Read, h.suggestPolicies),
		h.Get("/go/rules", identity.Read, h.suggestRules),
	}
}

// Suggestions while somebody types: their maximum number, and the minimum length of the text.
const (
	suggested = 8
	minText   = 2
)

// suggestedEntries is how many blocks and policies of each kind are suggested.
const suggestedEntries = 3

// suggestedChoices is how many policies or rules are suggested to fields for one of them.
const suggestedChoices = 20

// suggestion is a completion of the typed text, and why it is offered.
type suggestion struct{ Value, Why string }

// suggestKeys sends suggestions for the typed text: the key or id itself, then policies, blocks,
// recent offenders and other recent keys that contain the text, those with most offences or
// checks first.
func (h *searchHandler) suggestKeys(c *httpserver.Call) error {
	text := format.ClipLine(strings.TrimSpace(c.Query("q")), keys.MaxLength)
	found, err := h.suggestNamed(c.Context(), text)
	if err != nil {
		return err
	}
	if h.detection != nil && len(text) >= minText {
		ctx := c.Context()
		now := h.Now()
		offenders, err := h.detection.SearchOffenders(ctx, text, now.Add(-format.DefaultTimeRange), now, suggested)
		if err != nil {
			return err
		}
		for _, row := range offenders {
			if format.VisibleText(row.Key) != row.Key {
				continue // browsers draw suggestions themselves, so hidden characters could have an effect
			}
			found = append(found, suggestion{row.Key, phrase.Count(row.Offences, "offence") + " in the last hour"})
		}
		active, err := h.detection.ActiveKeys(ctx, offences.ActiveQuery{From: now.Add(-format.DefaultTimeRange), To: now, Search: text, Limit: suggested})
		if err != nil {
			return err
		}
		for _, row := range active.Rows {
			if format.VisibleText(row.Key) == row.Key {
				found = append(found, suggestion{row.Key, phrase.Count(row.Checks(), "check") + " in the last hour"})
			}
		}
	}
	seen := map[string]bool{}
	found = slices.DeleteFunc(found, func(s suggestion) bool {
		again := seen[s.Value]
		seen[s.Value] = true
		return again
	})
	return h.RenderPart(c, "suggestions", "suggestions", found)
}

// suggestPolicies sends suggestions for a field with the name of a policy: policies whose name
// or a pattern contains the typed text.
func (h *searchHandler) suggestPolicies(c *httpserver.Call) error {
	f := rules.PolicyFilter{Search: typedText(c, "policy")}
	var found []suggestion
	for _, p := range h.Catalog.Selector().Policies() {
		if f.Matches(p) {
			found = append(found, suggestion{p.Name, patternsOf(p, f.Search)})
		}
	}
	return h.sendChoices(c, found, f.Search)
}

// patternsOf names a pattern of a policy, one that contains text if there is one: browsers hide
// suggestions that do not contain what was typed.
func patternsOf(p *rules.Policy, text string) string {
	at := max(0, slices.IndexFunc(p.Match, func(m keys.Pattern) bool { return strings.Contains(strings.ToLower(m.String()), strings.ToLower(text)) }))
	shown := format.VisibleText(format.ClipLine(p.Match[at].String(), 80))
	if others := len(p.Match) - 1; others > 0 {
		shown += " and " + strconv.Itoa(others) + " more"
	}
	return shown
}

// suggestRules sends suggestions for a field with a rule: those of all policies, as they are
// written or shown.
func (h *searchHandler) suggestRules(c *httpserver.Call) error {
	text := typedText(c, "rule")
	typed, err := rules.ParseRule(text)
	seen := map[rules.Rule]bool{}
	var found []suggestion
	for _, p := range h.Catalog.Selector().Policies() {
		for _, r := range p.Rules {
			is := err == nil && r == typed
			if !seen[r] && (is || strings.Contains(r.String(), text) || strings.Contains(format.Rule(r), text)) {
				found = append(found, suggestion{r.String(), format.Rule(r)})
			}
			seen[r] = true
		}
	}
	return h.sendChoices(c, found, text)
}

// typedText returns what was typed into a field with suggestions.
func typedText(c *httpserver.Call, field string) string {
	return format.ClipLine(strings.TrimSpace(c.Query(field)), keys.MaxLength)
}

// sendChoices sends the first suggestions: those that begin with the typed text, then the others.
func (h *searchHandler) sendChoices(c *httpserver.Call, found []suggestion, text string) error {
	text = strings.ToLower(text)
	slices.SortFunc(found, func(a, b suggestion) int {
		if is, other := strings.HasPrefix(a.Value, text), strings.HasPrefix(b.Value, text); is != other {
			if is {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Value, b.Value)
	})
	return h.RenderPart(c, "suggestions", "suggestions", found[:min(len(found), suggestedChoices)])
}

// suggestNamed suggests what the text itself names, and the policies and active blocks that
// contain it.
func (h *searchHandler) suggestNamed(ctx context.Context, text string) (found []suggestion, err error) {
	if len(text) < minText {
		return nil, nil
	}
	if id, err := offences.ParseRefusalID(text); err == nil {
		return []suggestion{{id.String(), "the id of a refusal"}}, nil
	}
	if _, err := netip.ParseAddr(text); err == nil && h.detection != nil {
		p, err := h.ReadPattern("q", text)
		if err != nil {
			return nil, nil //nolint:nilerr // nothing is suggested for it
		}
		seen, err := h.detection.Seen(ctx, p, h.Now().Add(-seenLately), h.Now())
		if err != nil {
			return nil, err
		}
		found = append(found, suggestion{p.String(), seenWords(seen)})
	}
	for _, p := range h.Catalog.Selector().Policies() {
		if strings.Contains(p.Name, text) && len(found) < suggestedEntries {
			found = append(found, suggestion{p.Name, "a policy"})
		}
	}
	blocked, err := h.entries.Find(ctx, blocks.Filter{Kind: blocks.Block, Search: text, Limit: suggestedEntries, At: h.Now()})
	for _, e := range blocked.Items {
		if pattern := e.Pattern.String(); format.VisibleText(pattern) == pattern {
			found = append(found, suggestion{pattern, "blocked"})
		}
	}
	return found, err
}

// seenLately is the span in which a key is looked up: as long as its minutes are kept by default.
const seenLately = 30 * 24 * time.Hour

// seenWords describes the activity of one key within seenLately.
func seenWords(seen offences.Seen) string {
	if seen.Allowed+seen.Refused == 0 {
		return "not seen in the last 30 days"
	}
	return "seen: " + phrase.Number(seen.Allowed) + " allowed and " + phrase.Number(seen.Refused) + " refused in the last 30 days"
}

// pageOfID returns the address of what an id names: a block, an exemption or a proposal; "" for
// none. A refused client is sent the id of the block.
func (h *searchHandler) pageOfID(ctx context.Context, id string) (string, error) {
	if uuid.Validate(id) != nil {
		return "", nil //nolint:nilerr // it is no id
	}
	for kind, path := range map[blocks.Kind]string{blocks.Block: "/blocks", blocks.Exemption: "/exemptions"} {
		e, err := h.entries.ByID(ctx, kind, id)
		if err == nil {
			values := url.Values{"q": {e.Pattern.String()}}
			if !e.ActiveAt(h.Now()) {
				values.Set("state", "ended")
			}
			return path + "?" + values.Encode(), nil
		}
		if !fault.Is(err, fault.NotFound) {
			return "", err
		}
	}
	if h.detection == nil {
		return "", nil
	}
	p, err := h.detection.Proposals.ByID(ctx, id)
	switch {
	case err == nil:
		return "/proposals/" + p.ID, nil
	case fault.Is(err, fault.NotFound):
		return "", nil
	}
	return "", err
}

// listOfPart returns the address of the list of keys of which a text is a part, if no key that
// was seen lately is the text itself: the offenders of a time range, or the keys that were
// checked. It is "" if there is none.
func (h *searchHandler) listOfPart(ctx context.Context, key keys.Key, text string, in format.TimeRange) (string, error) {
	if h.detection == nil || strings.Contains(text, ":") || len(text) < minText {
		return "", nil
	}
	if seen, err := h.wasSeen(ctx, key); err != nil || seen {
		return "", err
	}
	if found, err := h.detection.SearchOffenders(ctx, text, in.From, in.To, 1); err != nil || len(found) > 0 {
		return site.WithRange("/offenders", in, "search", text), err
	}
	active, err := h.detection.ActiveKeys(ctx, offences.ActiveQuery{From: in.From, To: in.To, Search: text, Limit: 1})
	if err != nil || active.Keys == 0 {
		return "", err
	}
	return site.WithRange(site.ActiveKeysPath, in, "search", text), nil
}

// listOfPattern returns the address of the list of the keys that a pattern selects: the
// offenders of a time range, or the keys that were checked if none of them was refused.
func (h *searchHandler) listOfPattern(ctx context.Context, p keys.Pattern, in format.TimeRange) (string, error) {
	offenders := site.WithRange("/offenders", in, "pattern", p.String())
	if _, is := p.Origin(); is || h.detection == nil {
		return offenders, nil
	}
	refused, err := h.detection.Store.Rank(ctx, offences.Query{From: in.From, To: in.To, Pattern: p, Limit: 1})
	if err != nil || refused.Keys > 0 {
		return offenders, err
	}
	active, err := h.detection.ActiveKeys(ctx, offences.ActiveQuery{From: in.From, To: in.To, Pattern: p, Limit: 1})
	if err != nil || active.Keys == 0 {
		return offenders, err
	}
	return site.WithRange(site.ActiveKeysPath, in, "pattern", p.String()), nil
}

// wasSeen reports whether a key was checked lately.
func (h *searchHandler) wasSeen(ctx context.Context, key keys.Key) (bool, error) {
	if h.detection == nil {
		return false, nil
	}
	seen, err := h.detection.Seen(ctx, keys.PatternOf(key), h.Now().Add(-seenLately), h.Now())
	return seen.Allowed+seen.Refused > 0, err
}

// goTo redirects from a typed or pasted text to its page: an id, a policy, a key, an address
// without its kind, or the offenders whose keys contain the text.
func (h *searchHandler) goTo(c *httpserver.Call) error {
	text := strings.TrimSpace(c.Query("q"))
	if text == "" {
		return h.Redirect(c, "/")
	}
	kept, err := site.RangeOf(c, h.Now())
	if err != nil {
		return err
	}
	if id, err := offences.ParseRefusalID(text); err == nil {
		return h.Redirect(c, site.WithRange(site.KeyPath, kept, "refusal", id.String()))
	}
	if p, found := h.Catalog.Selector().ByName(text); found {
		return h.Redirect(c, "/policies/"+p.Name)
	}
	if _, err := netip.ParseAddr(text); err == nil {
		text = "ip:" + text
	}
	pattern, unread := h.ReadPattern("q", text) // the zero pattern has no origin
	_, isOrigin := pattern.Origin()
	network, isNetwork := pattern.Network()
	if isNetwork && (strings.Contains(text, "/") || !network.IsSingleIP() && !pattern.Widened()) || isOrigin || strings.HasSuffix(text, "*") {
		if unread != nil {
			return unread
		}
		if h.Catalog.Blocks().Of(blocks.Block, pattern, h.Now()) != nil {
			return h.Redirect(c, "/blocks?"+url.Values{"q": {pattern.String()}}.Encode())
		}
		list, err := h.listOfPattern(c.Context(), pattern, kept)
		if err != nil {
			return err
		}
		return h.Redirect(c, list)
	}
	page, err := h.pageOfID(c.Context(), text)
	if err != nil {
		return err
	}
	if page != "" {
		return h.Redirect(c, page)
	}
	key, err := h.Catalog.Parser().Key(text)
	if err != nil && unread != nil {
		return unread
	}
	if err != nil {
		return fault.Field("q", "%s", format.Capital(err.Error()))
	}
	list, err := h.listOfPart(c.Context(), key, text, kept)
	if err != nil {
		return err
	}
	if list != "" {
		return h.Redirect(c, list)
	}
	if unread != nil { // a mistyped address, unless some program has such a key
		if seen, err := h.wasSeen(c.Context(), key); err != nil || !seen {
			return cmp.Or(err, unread)
		}
	}
	return h.Redirect(c, site.WithRange(site.KeyPath, kept, "key", key.String()))
}
