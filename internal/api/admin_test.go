package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

const operate, administer, reader = identity.Operate, identity.Admin, identity.Read

func TestPolicyOfBareIPv6AddressWarnsOfItsNetwork(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		a := n.must(n.as(administer, put, "/v1/policies/six", `{"match":["ip:2001:db8::5","ip:2001:db8:1::5/128"],"rules":["10/min"]}`), http.StatusCreated)
		p := read[wire.Policy](t, a)
		if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "ip:2001:db8::/64") {
			t.Errorf("got the patterns %q and warnings %q", p.Match, p.Warnings)
		}
	})
}

func TestPolicyIsCreatedReplacedAndDeletedByETag(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		path := "/v1/policies/api"
		a := n.must(n.as(administer, put, path, `{"match":["token:*"],"rules":["10/min","20/s"]}`), http.StatusCreated)
		p := read[wire.Policy](t, a)
		first := a.header.Get("ETag")
		if first != strconv.Quote(p.ETag) || !strings.HasPrefix(p.ETag, "1-") || a.header.Get("Location") != path || p.Version != 1 || p.Mode != "enforce" || p.OnFailure != "local" || p.UpdatedBy != "test-admin" {
			t.Fatalf("got %s with %v", a.body, a.header)
		}
		if strings.Join(p.Rules, " ") != "20/1s 10/1m" || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "20/1s") {
			t.Fatalf("got the rules %q and warnings %q", p.Rules, p.Warnings)
		}
		next := `{"match":["token:*"],"rules":["11/min"],"escalation":{"threshold":3,"window":"10m","duration":"1h","factor":2,"max_duration":"7d","decay_after":"30d"}}`
		n.wantProblem(n.as(administer, put, path, next), http.StatusPreconditionRequired, "")
		n.wantProblem(n.as(administer, put, path, next, `If-Match: "1-0123456789abcdef"`), http.StatusPreconditionFailed, "")
		for _, wrong := range []string{"W/" + first, `"1"`, p.ETag, `""`, `"*"`, first + ", " + first} {
			n.wantProblem(n.as(administer, put, path, next, "If-Match: "+wrong), http.StatusUnprocessableEntity, "If-Match")
		}
		a = n.must(n.as(administer, put, path, next, "If-Match: "+first), http.StatusOK)
		second := a.header.Get("ETag")
		if p := read[wire.Policy](t, a); !strings.HasPrefix(second, `"2-`) || p.Escalation == nil || p.Escalation.MaxDuration.Std() != 168*time.Hour {
			t.Fatalf("got %s", a.body)
		}
		n.must(n.as(administer, put, path, next, "If-Match: *"), http.StatusOK)
		a = n.must(n.as(reader, get, path, ""), http.StatusOK)
		if a.header.Get("ETag") != second {
			t.Fatalf("got the ETag %s after an equal policy, want %s", a.header.Get("ETag"), second)
		}
		versions := read[wire.Page[wire.Policy]](t, n.must(n.as(reader, get, path+"/versions", ""), http.StatusOK))
		if len(versions.Items) != 2 || versions.Items[0].Version != 2 {
			t.Fatalf("got %+v", versions)
		}
		n.wantProblem(n.as(administer, put, "/v1/policies/other", `{"match":["token:*"],"rules":[]}`), http.StatusConflict, "match[0]")
		n.wantProblem(n.as(administer, del, path, ""), http.StatusPreconditionRequired, "")
		n.wantProblem(n.as(administer, del, path, "", "If-Match: "+first), http.StatusPreconditionFailed, "")
		n.must(n.as(administer, del, path, "", "If-Match: "+second), http.StatusNoContent)
		n.wantProblem(n.as(reader, get, path, ""), http.StatusNotFound, "")

		// The versions of a policy that is created again start at 1, but its states differ from
		// those of the former policy.
		n.must(n.as(administer, put, path, `{"match":["token:*"],"rules":["10/min","20/s"]}`), http.StatusCreated)
		n.wantProblem(n.as(administer, put, path, next, "If-Match: "+first), http.StatusPreconditionFailed, "")
		n.wantProblem(n.as(administer, del, path, "", "If-Match: "+first), http.StatusPreconditionFailed, "")
		n.must(n.as(administer, del, path, "", n.ifMatch(path)), http.StatusNoContent)
		if all := read[wire.Page[wire.Policy]](t, n.must(n.as(reader, get, "/v1/policies", ""), http.StatusOK)); *all.Total != 1 || all.Items[0].Name != "default" {
			t.Fatalf("got %+v", all)
		}
	})
}

func TestBadAdminRequestsReturnProblemsNamingTheField(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		long := strings.Repeat("x", 2000)
		policy, escalation := "/v1/policies/p", func(change string) string {
			return `{"match":["a:*"],"rules":["1/s"],"escalation":{"threshold":3,"window":"10m","duration":"1h","factor":2,"max_duration":"7d","decay_after":"30d",` + change + `}}`
		}
		replaced := func(field, value string) string {
			fields := map[string]string{"threshold": "3", "window": `"10m"`, "duration": `"1h"`, "factor": "2", "max_duration": `"7d"`, "decay_after": `"30d"`}
			fields[field] = value
			var parts []string
			for name, value := range fields {
				parts = append(parts, `"`+name+`":`+value)
			}
			return `{"match":["a:*"],"rules":["1/s"],"escalation":{` + strings.Join(parts, ",") + `}}`
		}
		for name, test := range map[string]struct {
			method, path, body string
			status             int
			field              string
		}{
			"a policy without a body":           {put, policy, " ", 400, ""},
			"a policy of null":                  {put, policy, "null", 422, ""},
			"a policy of a list":                {put, policy, "[]", 422, ""},
			"a policy without rules":            {put, policy, `{"match":["*"]}`, 422, "rules"},
			"null rules":                        {put, policy, `{"match":["*"],"rules":null}`, 422, "rules"},
			"a policy without patterns":         {put, policy, `{"match":[],"rules":[]}`, 422, "match"},
			"null patterns":                     {put, policy, `{"match":null,"rules":[]}`, 422, "match"},
			"a bad rule":                        {put, policy, `{"match":["a:*"],"rules":["1/s","5 per minute"]}`, 422, "rules[1]"},
			"a rule that overflows":             {put, policy, `{"match":["a:*"],"rules":["99999999999999999999/s"]}`, 422, "rules[0]"},
			"a window that overflows":           {put, policy, `{"match":["a:*"],"rules":["1/9999999999999999999d"]}`, 422, "rules[0]"},
			"a number for a rule":               {put, policy, `{"match":["a:*"],"rules":[5]}`, 422, "rules[0]"},
			"a misleading pattern":              {put, policy, `{"match":["ip:10.1*"],"rules":[]}`, 422, "match[0]"},
			"a pattern with host bits":          {put, policy, `{"match":["ip:10.1.2.3/8"],"rules":[]}`, 422, "match[0]"},
			"an unknown mode":                   {put, policy, `{"match":["a:*"],"rules":[],"mode":"on"}`, 422, "mode"},
			"an unknown on_limit":               {put, policy, `{"match":["a:*"],"rules":[],"on_limit":"x"}`, 422, "on_limit"},
			"an unknown on_failure":             {put, policy, `{"match":["a:*"],"rules":[],"on_failure":"x"}`, 422, "on_failure"},
			"an unknown algorithm":              {put, policy, `{"match":["a:*"],"rules":[],"algorithm":"dice"}`, 422, "algorithm"},
			"another algorithm's option":        {put, policy, `{"match":["a:*"],"rules":[],"options":{"burst":5}}`, 422, "options.burst"},
			"a default of another's option":     {put, policy, `{"match":["a:*"],"rules":[],"options":{"variant":"meter"}}`, 422, "options.variant"},
			"a string for count_refused":        {put, policy, `{"match":["a:*"],"rules":[],"algorithm":"sorted_set_log","options":{"count_refused":"yes"}}`, 422, "options.count_refused"},
			"an unknown option":                 {put, policy, `{"match":["a:*"],"rules":[],"options":{"speed":5}}`, 422, "options.speed"},
			"another name than the path's":      {put, policy, `{"name":"q","match":["a:*"],"rules":[]}`, 422, "name"},
			"a bad name":                        {put, "/v1/policies/Q", `{"match":["a:*"],"rules":[]}`, 422, "name"},
			"a read-only field":                 {put, policy, `{"match":["a:*"],"rules":[],"version":1}`, 422, "version"},
			"a field twice":                     {put, policy, `{"match":["a:*"],"rules":[],"rules":[]}`, 400, "rules"},
			"an unknown field of an escalation": {put, policy, escalation(`"steps":1`), 422, "escalation.steps"},
			"a fractional threshold":            {put, policy, replaced("threshold", "1.5"), 422, "escalation.threshold"},
			"a threshold of 0":                  {put, policy, replaced("threshold", "0"), 422, "escalation.threshold"},
			"a bad duration":                    {put, policy, replaced("duration", `"1 hour"`), 422, "escalation.duration"},
			"a number for a duration":           {put, policy, replaced("duration", "60"), 422, "escalation.duration"},
			"max_duration below duration":       {put, policy, replaced("max_duration", `"1m"`), 422, "escalation.max_duration"},
			"a string for a factor":             {put, policy, replaced("factor", `"2"`), 422, "escalation.factor"},
			"too large a body":                  {put, policy, `{"match":["` + strings.Repeat("x", 1<<20) + `"]}`, 413, ""},
			"a body that is too deep":           {put, policy, strings.Repeat("[", 100), 400, ""},
			"a block without a pattern":         {post, "/v1/blocks", `{}`, 422, "pattern"},
			"a block of an empty pattern":       {post, "/v1/blocks", `{"pattern":""}`, 422, "pattern"},
			"a block with a NUL":                {post, "/v1/blocks", `{"pattern":"a\u0000"}`, 422, "pattern"},
			"a block not in UTF-8":              {post, "/v1/blocks", "{\"pattern\":\"\xff\"}", 400, "pattern"},
			"a long reason":                     {post, "/v1/blocks", `{"pattern":"token:a","reason":"` + long + `"}`, 422, "reason"},
			"a control character in a reason":   {post, "/v1/blocks", `{"pattern":"token:a","reason":"a\u001b[2J"}`, 422, "reason"},
			"an expires_at in the past":         {post, "/v1/blocks", `{"pattern":"token:a","expires_at":"2020-01-01T00:00:00Z"}`, 422, "expires_at"},
			"an expires_at of now":              {post, "/v1/blocks", `{"pattern":"token:a","expires_at":"2026-01-01T12:34:31Z"}`, 422, "expires_at"},
			"an invalid expires_at":             {post, "/v1/blocks", `{"pattern":"token:a","expires_at":"tomorrow"}`, 422, "expires_at"},
			"an expires_in of 0":                {post, "/v1/blocks", `{"pattern":"token:a","expires_in":"0s"}`, 422, "expires_in"},
			"an expires_in that overflows":      {post, "/v1/blocks", `{"pattern":"token:a","expires_in":"999999999999d"}`, 422, "expires_in"},
			"a negative expires_in":             {post, "/v1/blocks", `{"pattern":"token:a","expires_in":"-1h"}`, 422, "expires_in"},
			"expires_in and expires_at":         {post, "/v1/blocks", `{"pattern":"token:a","expires_in":"1h","expires_at":"2030-01-01T00:00:00Z"}`, 422, "expires_in"},
			"an unknown on_conflict":            {post, "/v1/blocks", `{"pattern":"token:a","on_conflict":"ignore"}`, 422, "on_conflict"},
			"an exemption without a pattern":    {post, "/v1/exemptions", `{}`, 422, "pattern"},
			"an empty change":                   {patch, "/v1/blocks/x", `{}`, 422, ""},
			"a change of a pattern":             {patch, "/v1/blocks/x", `{"pattern":"token:b"}`, 422, "pattern"},
			"a change to an expires_in of 0":    {patch, "/v1/blocks/x", `{"expires_in":"0s"}`, 422, "expires_in"},
			"an unknown block":                  {get, "/v1/blocks/x", "", 404, ""},
			"an id with a NUL":                  {get, "/v1/blocks/%00", "", 404, ""},
			"an id not in UTF-8":                {get, "/v1/blocks/%ff", "", 404, ""},
			"an unknown parameter":              {get, "/v1/blocks?stat=all", "", 422, "stat"},
			"an unknown state":                  {get, "/v1/blocks?state=live", "", 422, "state"},
			"a parameter twice":                 {get, "/v1/blocks?state=all&state=ended", "", 422, "state"},
			"a limit of 0":                      {get, "/v1/blocks?limit=0", "", 422, "limit"},
			"a limit of 1001":                   {get, "/v1/blocks?limit=1001", "", 422, "limit"},
			"a bad cursor":                      {get, "/v1/blocks?cursor=!!", "", 422, "cursor"},
			"a search with a NUL":               {get, "/v1/blocks?search=%00", "", 422, "search"},
			"a search not in UTF-8":             {get, "/v1/blocks?search=%ff", "", 422, "search"},
			"tokens of an unknown state":        {get, "/v1/tokens?state=live", "", 422, "state"},
			"filter by a bad key":               {get, "/v1/blocks?key=ip:x", "", 422, "key"},
			"filter by a bad pattern":           {get, "/v1/blocks?within=ip:10.1*", "", 422, "within"},
			"explain without a key":             {get, "/v1/keys", "", 422, "key"},
			"explain a bad key":                 {get, "/v1/keys?key=ip:1.2.3", "", 422, "key"},
			"explain an unknown policy":         {get, "/v1/keys?key=a&policy=nobody", "", 422, "policy"},
			"reset an unknown policy":           {del, "/v1/keys?key=a&policy=nobody", "", 422, "policy"},
			"a token without a name":            {post, "/v1/tokens", `{"scopes":["read"]}`, 422, "name"},
			"a token without scopes":            {post, "/v1/tokens", `{"name":"a"}`, 422, "scopes"},
			"a token of an unknown scope":       {post, "/v1/tokens", `{"name":"a","scopes":["read","root"]}`, 422, "scopes[1]"},
			"a token of the scope public":       {post, "/v1/tokens", `{"name":"a","scopes":["public"]}`, 422, "scopes[0]"},
			"a token of one scope twice":        {post, "/v1/tokens", `{"name":"a","scopes":["read","read"]}`, 422, "scopes[1]"},
			"a token whose name is taken":       {post, "/v1/tokens", `{"name":"test-read","scopes":["read"]}`, 409, "name"},
			"a user of a bad name":              {post, "/v1/users", `{"name":"a b","role":"viewer","password":"long enough"}`, 422, "name"},
			"a user of an unknown role":         {post, "/v1/users", `{"name":"a","role":"root","password":"long enough"}`, 422, "role"},
			"a user of a short password":        {post, "/v1/users", `{"name":"a","role":"viewer","password":"short"}`, 422, "password"},
			"a change of an unknown user":       {patch, "/v1/users/x", `{"role":"viewer"}`, 404, ""},
			"an audit id that is no number":     {get, "/v1/audit/x", "", 404, ""},
			"an audit with to before from":      {get, "/v1/audit?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "", 422, "to"},
			"an audit with an invalid from":     {get, "/v1/audit?from=today", "", 422, "from"},
			"an export of unknown format":       {get, "/v1/audit/export?format=xml", "", 422, "format"},
			"a backup without a store":          {get, "/v1/backup", "", 404, ""},
		} {
			t.Run(name, func(t *testing.T) {
				n := &testNode{T: t, admin: n.admin, tokens: n.tokens}
				p := n.wantProblem(n.as(administer, test.method, test.path, test.body), test.status, test.field)
				if strings.ContainsAny(p.Detail, "\x00\x1b\n") {
					t.Errorf("the detail contains control characters: %q", p.Detail)
				}
			})
		}
		n.wantProblem(n.as(administer, post, "/v1/blocks", `pattern=a`, "Content-Type: application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType, "")
	})
}

func TestUnknownFieldProblemListsKnownFields(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		p := n.wantProblem(n.as(operate, post, "/v1/blocks", `{"pattern":"a","expires":"1h"}`), http.StatusUnprocessableEntity, "expires")
		if !strings.Contains(p.Detail, "expires_in") {
			t.Errorf("got %q, want it to list expires_in", p.Detail)
		}
	})
}

func TestKeyIsExplainedAndReset(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		putPolicy(n, "default", `{"match":["*"],"rules":["2/m"]}`, "If-Match: *")
		path := "/v1/keys?key=" + url.QueryEscape("ip:203.0.113.7")
		for range 2 {
			n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK)
			n.clock.Add(time.Second)
		}
		x := read[wire.KeyExplanation](t, n.must(n.as(reader, get, path, ""), http.StatusOK))
		if x.Decision != wire.Limited || x.Policy.Name != "default" || x.Policy.Pattern != "*" || x.Policy.Rule != "2/1m" || len(x.Policy.Timestamps) != 2 ||
			x.Policy.Rules[0].Used != 2 || x.Policy.Rules[0].Remaining != 0 || x.NextAllowedAt.Sub(start) != time.Minute {
			t.Fatalf("got %+v", x)
		}
		n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusTooManyRequests)
		reset := read[wire.KeyReset](t, n.must(n.as(operate, del, path, ""), http.StatusOK))
		if len(reset.Policies) != 1 || reset.Policies[0].Policy != "default" || !reset.Policies[0].Existed {
			t.Fatalf("got %+v", reset)
		}
		n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK)
		entries := read[wire.Page[wire.AuditEntry]](t, n.must(n.as(reader, get, "/v1/audit?action=key", ""), http.StatusOK))
		if len(entries.Items) != 1 || entries.Items[0].ObjectID != "ip:203.0.113.7" || entries.Items[0].Actor.Name != "test-operate" || entries.Items[0].Actor.Address != "127.0.0.1" {
			t.Fatalf("got %+v", entries)
		}
	})
}

func TestTokenIsCreatedUsedRotatedAndRevoked(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		whoami := func(secret string) answer {
			return n.send(get, n.admin+"/v1/whoami", "", "Authorization: Bearer "+secret)
		}
		a := n.must(n.as(administer, post, "/v1/tokens", `{"name":"ci","scopes":["read","operate"],"expires_in":"30d"}`), http.StatusCreated)
		made := read[wire.CreatedToken](t, a)
		if identity.Mistyped(made.Secret) || !strings.HasPrefix(made.Secret, made.Hint) || made.Author != "test-admin" {
			t.Fatalf("got %s", a.body)
		}
		who := read[wire.Whoami](t, n.must(whoami(made.Secret), http.StatusOK))
		if who.Name != "ci" || who.Kind != "token" || strings.Join(who.Scopes, " ") != "read operate" || who.Role != nil || who.Address != "127.0.0.1" {
			t.Fatalf("got %+v", who)
		}
		list := n.must(n.as(administer, get, "/v1/tokens", ""), http.StatusOK)
		if strings.Contains(list.body, made.Secret) || strings.Contains(list.body, "hash") {
			t.Fatalf("the list contains secrets: %s", list.body)
		}
		path := "/v1/tokens/" + made.ID
		next := read[wire.CreatedToken](t, n.must(n.as(administer, post, path+"/rotate", `{"overlap":"1h"}`), http.StatusCreated))
		if next.Name != "ci-2" || next.ExpiresAt.Sub(start) != 30*24*time.Hour || next.Replaces == nil || next.Replaces.ExpiresAt.Sub(start) != time.Hour {
			t.Fatalf("got %+v", next)
		}
		n.must(whoami(made.Secret), http.StatusOK)
		n.must(whoami(next.Secret), http.StatusOK)
		n.clock.Add(time.Hour)
		n.must(whoami(made.Secret), http.StatusUnauthorized)
		last := read[wire.CreatedToken](t, n.must(n.as(administer, post, "/v1/tokens/"+next.ID+"/rotate", `{"overlap":"0s"}`), http.StatusCreated))
		n.must(whoami(next.Secret), http.StatusUnauthorized)
		n.wantProblem(n.as(administer, post, "/v1/tokens/"+next.ID+"/rotate", ""), http.StatusConflict, "")
		renamed := read[wire.Token](t, n.must(n.as(administer, patch, "/v1/tokens/"+last.ID, `{"name":"deploy","expires_at":null}`), http.StatusOK))
		if renamed.Name != "deploy" || !renamed.ExpiresAt.IsZero() {
			t.Fatalf("got %+v", renamed)
		}
		revoked := read[wire.Token](t, n.must(n.as(administer, del, "/v1/tokens/"+last.ID, ""), http.StatusOK))
		if revoked.Active || revoked.RevokedAt.IsZero() {
			t.Fatalf("got %+v", revoked)
		}
		n.must(whoami(last.Secret), http.StatusUnauthorized)
	})
}

func TestAuditIsListedAndExported(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		n.must(n.as(operate, post, "/v1/blocks", `{"pattern":"token:=cmd()","reason":"=1+1"}`), http.StatusCreated)
		page := read[wire.Page[wire.AuditEntry]](t, n.must(n.as(reader, get, "/v1/audit?action=block&limit=1", ""), http.StatusOK))
		if len(page.Items) != 1 || page.Items[0].Actor.Name != "test-operate" || string(page.Items[0].Before) != "null" || !strings.Contains(string(page.Items[0].After), "=cmd") {
			t.Fatalf("got %+v", page)
		}
		all := read[[]wire.AuditEntry](t, n.must(n.as(reader, get, "/v1/audit/export", ""), http.StatusOK))
		if len(all) < 5 || all[0].ID != page.Items[0].ID {
			t.Fatalf("got %d records, want at least 5", len(all))
		}
		if none := n.must(n.as(reader, get, "/v1/audit/export?actor=nobody", ""), http.StatusOK); strings.TrimSpace(none.body) != "[]" {
			t.Fatalf("got %q, want []", none.body)
		}
		csv := n.must(n.as(reader, get, "/v1/audit/export?format=csv&action=block", ""), http.StatusOK)
		if lines := strings.Count(csv.body, "\n"); lines != 2 || !strings.HasPrefix(csv.body, "id,at,actor_kind,") || !strings.Contains(csv.header.Get("Content-Disposition"), "audit.csv") {
			t.Fatalf("got %s with %v", csv.body, csv.header)
		}
	})
}
