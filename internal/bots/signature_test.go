package bots

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

const chatgpt = "https://chatgpt.com"

// signing is a bot that signs requests, as the drafts say and without the code that verifies them.
type signing struct {
	private             ed25519.PrivateKey
	host, agent         string
	components          []string // identifiers as they are signed
	created, expires    int64
	keyID, nonce, extra string
}

// newSigning returns a bot of chatgpt.com that signs at an instant.
func newSigning(private ed25519.PrivateKey, at time.Time) signing {
	return signing{
		private: private, host: "www.example.com", agent: `sig1="` + chatgpt + `"`, components: []string{`"@authority"`, `"signature-agent";key="sig1"`},
		created: at.Unix(), expires: at.Unix() + 60, keyID: thumbprint(private.Public().(ed25519.PublicKey)), nonce: "n-" + at.String(), extra: `;tag="web-bot-auth"`,
	}
}

// signed returns what a door says of the signed request.
func (s signing) signed() *conditions.Signed {
	parameters := fmt.Sprintf(`(%s);created=%d;keyid="%s";alg="ed25519";expires=%d`, strings.Join(s.components, " "), s.created, s.keyID, s.expires)
	if s.nonce != "" {
		parameters += `;nonce="` + s.nonce + `"`
	}
	parameters += s.extra
	_, member, _ := strings.Cut(s.agent, "=")
	base := ""
	for _, c := range s.components {
		value := map[string]string{`"@authority"`: s.host, `"@method"`: "GET", `"@path"`: "/a", `"@target-uri"`: "https://" + s.host + "/a?b", `"signature-agent";key="sig1"`: member, `"signature-agent"`: s.agent}[c]
		base += c + ": " + value + "\n"
	}
	value := ed25519.Sign(s.private, []byte(base+`"@signature-params": `+parameters))
	return &conditions.Signed{
		Method: "GET", Scheme: "https", Authority: s.host, Agent: []string{s.agent},
		Input: []string{"sig1=" + parameters}, Signature: []string{"sig1=:" + base64.StdEncoding.EncodeToString(value) + ":"},
	}
}

// signedWorld is a node that knows the key of a bot that signs.
type signedWorld struct {
	t       *testing.T
	d       *Directory
	now     time.Time
	private ed25519.PrivateKey
	pub     *publisher
}

func keySet(private ed25519.PrivateKey, more string) string {
	return fmt.Sprintf(`{"keys":[{"kty":"RSA","n":"x"},{"kty":"OKP","crv":"Ed25519","x":"%s"%s}]}`, base64.RawURLEncoding.EncodeToString(private.Public().(ed25519.PublicKey)), more)
}

func newSignedWorld(t *testing.T) *signedWorld {
	t.Helper()
	w := &signedWorld{t: t, now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), private: ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", 32)))}
	w.pub = &publisher{body: map[string]string{chatgpt + keysPath: keySet(w.private, "")}}
	clock := func() time.Time { return w.now }
	w.d = &Directory{Lists: NewLists("", w.pub.download, clock), Now: clock, Began: w.now.Add(-time.Hour), IsOurs: isOurs}
	w.d.Lists.fetch(t.Context(), chatgpt+keysPath)
	return w
}

func isOurs(host string) bool { return host == "www.example.com" }

var fromAnywhere, _ = keys.Parser{}.Key("ip:203.0.113.7")

// verified returns how the bot of a request was verified, "" for no bot.
func (w *signedWorld) verified(s *conditions.Signed, use Use) string {
	w.t.Helper()
	r := conditions.NewRequest("/a?b", "GET", "Mozilla/5.0", "www.example.com").SayingSigned(s)
	i := w.d.Identify(r, fromAnywhere, use)
	if i.Agent != nil && i.Agent.Name() != "openai/chatgpt-agent" {
		w.t.Errorf("it is %s", i.Agent.Name())
	}
	if again := w.d.Identify(r, fromAnywhere, use); again != i {
		w.t.Errorf("another key of the same request is %+v, and the first %+v", again, i)
	}
	return i.Verified
}

func TestASignatureVerifiesABotWhateverItsAgentIs(t *testing.T) {
	w := newSignedWorld(t)
	for name, change := range map[string]func(s *signing){
		"as a dictionary": func(*signing) {}, "as one string": func(s *signing) {
			s.agent, s.components = `"`+chatgpt+`"`, []string{`"@authority"`, `"signature-agent"`}
		},
		"of the whole dictionary": func(s *signing) { s.components = []string{`"@authority"`, `"signature-agent"`} },
		"with the path":           func(s *signing) { s.components = append(s.components, `"@method"`, `"@path"`) },
		"of the whole address":    func(s *signing) { s.components[0] = `"@target-uri"` },
		"with a slash":            func(s *signing) { s.agent = `sig1="` + chatgpt + `/";type=directory` },
		"without a nonce":         func(s *signing) { s.nonce = "" },
	} {
		w.now = w.now.Add(time.Second)
		s := newSigning(w.private, w.now)
		if change(&s); w.verified(s.signed(), Use{}) != conditions.BySignature {
			t.Errorf("a signature %s is %s: %s", name, w.verified(s.signed(), Use{}), w.d.Refused(chatgpt+keysPath))
		}
	}
	s := newSigning(w.private, w.now.Add(time.Second))
	for agent, want := range map[string]string{"ChatGPT-User/1.0": "openai/chatgpt-agent", "GPTBot/1.0": "openai/chatgpt-agent", "Googlebot/2.1": "openai/chatgpt-agent"} {
		s.nonce = agent
		i := w.d.Identify(conditions.NewRequest("/a?b", "GET", agent, "").SayingSigned(s.signed()), fromAnywhere, Use{})
		if i.Agent.Name() != want || !i.IsVerified() {
			t.Errorf("with the agent %s it is %s, %s", agent, i.Agent.Name(), i.Verified)
		}
	}
}

func TestWhatIsNoSignatureOfTheRequestVerifiesNobody(t *testing.T) {
	w := newSignedWorld(t)
	rfcKey := ed25519.NewKeyFromSeed(decode(t, "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"))
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", 32)))
	began := func(at int64) { w.d.Began = time.Unix(at, 0) }
	before := w.d.Began
	for name, c := range map[string]struct {
		change func(s *signing)
		sent   func(s *conditions.Signed)
		why    string
		claims string // how it is verified: a claim names a bot that is known
	}{
		"expired":               {change: func(s *signing) { s.created, s.expires = s.created-60, s.created }, why: "has expired", claims: "claimed"},
		"of the future":         {change: func(s *signing) { s.created, s.expires = s.created+120, s.created+180 }, why: "of the future", claims: "claimed"},
		"for days":              {change: func(s *signing) { s.expires = s.created + 2*maxSignedFor }, why: "at most an hour", claims: "claimed"},
		"a second too long":     {change: func(s *signing) { s.expires = s.created + maxSignedFor + 1 }, why: "at most an hour", claims: "claimed"},
		"ends before it began":  {change: func(s *signing) { s.expires = s.created - 1 }, why: "at most an hour", claims: "claimed"},
		"before the node":       {change: func(s *signing) { s.created -= 3500; began(s.created - maxAhead) }, why: "older than this node", claims: "claimed"},
		"another host":          {change: func(s *signing) { s.host = "www.example.org" }, sent: func(s *conditions.Signed) { s.Authority = "www.example.com" }, why: "not of this request", claims: "claimed"},
		"for a site of others":  {change: func(s *signing) { s.host = "evil.example" }, why: "not among --site-hosts", claims: "claimed"},
		"their whole address":   {change: func(s *signing) { s.host = "evil.example:443"; s.components[0] = `"@target-uri"` }, why: "not among --site-hosts", claims: "claimed"},
		"for a name behind":     {change: func(s *signing) { s.host = "www.example.com.evil.example" }, why: "not among --site-hosts", claims: "claimed"},
		"no host":               {sent: func(s *conditions.Signed) { s.Authority = "" }, why: "not among --site-hosts", claims: "claimed"},
		"another key":           {change: func(s *signing) { s.private = other }, why: "not of this request", claims: "claimed"},
		"an unknown key":        {change: func(s *signing) { s.private = other; s.keyID = thumbprint(other.Public().(ed25519.PublicKey)) }, why: "not among those", claims: "claimed"},
		"the test key":          {change: func(s *signing) { s.private = rfcKey; s.keyID = testKeys[0] }, why: "test key", claims: "claimed"},
		"no host covered":       {change: func(s *signing) { s.components = s.components[1:] }, why: "not cover @authority", claims: "claimed"},
		"no agent covered":      {change: func(s *signing) { s.components = s.components[:1] }, why: "not cover Signature-Agent", claims: "claimed"},
		"an altered agent":      {sent: func(s *conditions.Signed) { s.Agent = []string{`sig1="` + chatgpt + `/"`} }, why: "not of this request", claims: "claimed"},
		"another directory":     {change: func(s *signing) { s.agent = `sig1="https://agent.example"` }},
		"a directory over http": {change: func(s *signing) { s.agent = `sig1="http://chatgpt.com"` }},
		"a directory's path":    {change: func(s *signing) { s.agent = `sig1="https://chatgpt.com/x"` }},
		"another type":          {change: func(s *signing) { s.agent = `sig1="https://chatgpt.com";type=jwks_uri` }},
		"no agent":              {sent: func(s *conditions.Signed) { s.Agent = nil }},
		"a list as agent":       {sent: func(s *conditions.Signed) { s.Agent = []string{`sig1=("https://chatgpt.com")`} }},
		"another tag":           {change: func(s *signing) { s.extra = `;tag="http-message-signatures-directory"` }},
		"no tag":                {change: func(s *signing) { s.extra = "" }},
		"nonsense":              {sent: func(s *conditions.Signed) { s.Input = []string{"?"} }},
	} {
		s := newSigning(w.private, w.now)
		s.nonce = name
		if c.change != nil {
			c.change(&s)
		}
		sent := s.signed()
		if c.sent != nil {
			c.sent(sent)
		}
		if got := w.verified(sent, Use{}); got != c.claims {
			t.Errorf("%s: it is verified by %q, want %q", name, got, c.claims)
		}
		w.d.Began = before
		if got := w.d.Refused(chatgpt + keysPath); c.why != "" && !strings.Contains(got, c.why) {
			t.Errorf("%s: the reason is %q, want one with %q", name, got, c.why)
		}
	}
	// What is seen without it is seen before the signature is verified, which takes longer than all else.
	for why, change := range map[string]func(s *signing, sent *conditions.Signed){
		"has expired":         func(s *signing, _ *conditions.Signed) { s.created, s.expires = s.created-60, s.created },
		"of the future":       func(s *signing, _ *conditions.Signed) { s.created, s.expires = s.created+120, s.created+180 },
		"at most an hour":     func(s *signing, _ *conditions.Signed) { s.expires = s.created + maxSignedFor + 1 },
		"not among those":     func(s *signing, _ *conditions.Signed) { s.keyID = "unknown" },
		"test key":            func(s *signing, _ *conditions.Signed) { s.keyID = testKeys[1] },
		"of 64 bytes":         func(_ *signing, sent *conditions.Signed) { sent.Signature = []string{"sig1=:AAAA:"} },
		"was used before":     func(s *signing, _ *conditions.Signed) { s.nonce = "used" },
		"not of this request": func(s *signing, _ *conditions.Signed) { s.nonce = "new" },
	} {
		good := newSigning(w.private, w.now)
		good.nonce = "used"
		w.verified(good.signed(), Use{})
		s, id := newSigning(other, w.now), newSigning(w.private, w.now).keyID
		s.keyID, s.nonce = id, why
		change(&s, &conditions.Signed{})
		sent := s.signed()
		change(&s, sent)
		if got := w.verified(sent, Use{}); got != conditions.Claimed || !strings.Contains(w.d.Refused(chatgpt+keysPath), why) {
			t.Errorf("by another key, and %s: it is %s: %s", why, got, w.d.Refused(chatgpt+keysPath))
		}
	}
	// One that was used before a restart, when the clock of its signer was ahead, does not count after it.
	s := newSigning(w.private, w.now.Add(maxAhead*time.Second))
	if got := w.verified(s.signed(), Use{}); got != conditions.BySignature {
		t.Errorf("a signature %d s ahead is %s", maxAhead, got)
	}
	w.d = &Directory{Lists: w.d.Lists, Now: w.d.Now, IsOurs: isOurs, Began: w.now}
	if got := w.verified(s.signed(), Use{}); got != conditions.Claimed {
		t.Errorf("after a restart it is %s", got)
	}
	if s = newSigning(w.private, w.now.Add(time.Second)); w.verified(s.signed(), Use{}) != conditions.Claimed {
		t.Error("a signature of the first seconds counts")
	}
	w.now = w.now.Add((maxAhead + 1) * time.Second)
	if s = newSigning(w.private, w.now); w.verified(s.signed(), Use{}) != conditions.BySignature {
		t.Errorf("a signature of after them: %s", w.d.Refused(chatgpt+keysPath))
	}
	// Without hosts of ours no signature counts, and that is said before one comes.
	w.d = &Directory{Lists: w.d.Lists, Now: w.d.Now, Began: before}
	if got := w.d.Refused(chatgpt + keysPath); !strings.Contains(got, "--site-hosts") || w.d.CanVerify(FindAgent("openai/chatgpt-agent")) || w.d.Refused("https://openai.com/gptbot.json") != "" {
		t.Errorf("without hosts the reason is %q, or bots that sign can be verified", got)
	}
	if s = newSigning(w.private, w.now.Add(2*time.Second)); w.verified(s.signed(), Use{}) != conditions.Claimed {
		t.Error("without hosts a signature counts")
	}
	w.d.IsOurs = isOurs
	// A directory that publishes the test key does not make it a key.
	w.pub.body[chatgpt+keysPath] = keySet(rfcKey, "")
	w.d.Lists.fetch(t.Context(), chatgpt+keysPath)
	s = newSigning(rfcKey, w.now)
	if got := w.verified(s.signed(), Use{}); got != conditions.Claimed {
		t.Errorf("the published test key verifies by %s", got)
	}
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestASignatureIsUsedOnce(t *testing.T) {
	w := newSignedWorld(t)
	s := newSigning(w.private, w.now)
	for i, step := range []struct {
		use  Use
		want string
	}{
		{Use{IsPeek: true}, conditions.BySignature}, {Use{ID: "a"}, conditions.BySignature}, {Use{ID: "a"}, conditions.BySignature}, {Use{IsReport: true}, conditions.BySignature},
		{Use{}, conditions.Claimed}, {Use{ID: "b"}, conditions.Claimed}, {Use{IsPeek: true}, conditions.Claimed},
	} {
		if got := w.verified(s.signed(), step.use); got != step.want {
			t.Errorf("step %d: it is verified by %s, want %s", i, got, step.want)
		}
	}
	// The nonce is used, with whatever it is signed again; from another address it is no report of it.
	again := s
	again.expires++
	if got := w.verified(again.signed(), Use{}); got != conditions.Claimed {
		t.Errorf("the nonce is used again and verified by %s", got)
	}
	elsewhere, err := keys.Parser{}.Key("ip:198.51.100.9")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []keys.Key{elsewhere, {}} {
		if i := w.d.Identify(conditions.NewRequest("/a?b", "GET", "", "").SayingSigned(s.signed()), address, Use{IsReport: true, ID: "a"}); i.IsVerified() {
			t.Errorf("a report of %q uses it again", address.String())
		}
	}
	s.nonce = ""
	if first, second := w.verified(s.signed(), Use{}), w.verified(s.signed(), Use{}); first != conditions.BySignature || second != conditions.Claimed {
		t.Errorf("without a nonce it is verified by %s, and then by %s", first, second)
	}
}

func TestWhatWasUsedIsBoundedAndForgottenWhenItExpires(t *testing.T) {
	var s spent
	n := func(i int) (n nonce) { copy(n[:], fmt.Sprint(i)); return n }
	for i := range maxSpent {
		if !s.take(n(i), 100, 1, keys.Key{}, Use{}) {
			t.Fatalf("there is no room for %d", i)
		}
	}
	if s.take(n(maxSpent), 100, 1, keys.Key{}, Use{}) {
		t.Error("there is room for more than the most")
	}
	if s.take(n(7), 100, 99, keys.Key{}, Use{}) || len(s.all) != maxSpent {
		t.Error("what is used was forgotten for want of room")
	}
	if !s.take(n(maxSpent), 200, 100, keys.Key{}, Use{}) || len(s.all) != 1 {
		t.Errorf("%d are remembered once all have expired", len(s.all))
	}
	// Whatever comes, it looks at all of them only once what was remembered has expired, and once a second.
	s = spent{}
	for i := range maxSpent {
		s.take(n(i), 100+int64(i%3), 1, keys.Key{}, Use{})
	}
	for _, step := range []struct{ now, swept int64 }{{50, 0}, {99, 0}, {100, 100}, {100, 100}} {
		for i := range 100 {
			s.take(n(2*maxSpent+i), 100, step.now, keys.Key{}, Use{})
		}
		if s.swept != step.swept {
			t.Errorf("at %d it was swept at %d, want %d", step.now, s.swept, step.swept)
		}
	}
	if s.least != 100 || len(s.all) != maxSpent-maxSpent/3-1+100 {
		t.Errorf("%d are remembered, of which the first expires at %d", len(s.all), s.least)
	}
}

func TestKeysAreFetchedWhenABotComes(t *testing.T) {
	w := newSignedWorld(t)
	l := w.d.Lists
	rotated := ed25519.NewKeyFromSeed([]byte(strings.Repeat("r", 32)))
	w.pub.body[chatgpt+keysPath] = keySet(rotated, "")
	fetch := func() bool {
		select {
		case url := <-l.fetches.waiting:
			l.fetch(t.Context(), url)
			return true
		default:
			return false
		}
	}
	try := func(private ed25519.PrivateKey) string {
		w.now = w.now.Add(time.Second)
		s := newSigning(private, w.now)
		return w.verified(s.signed(), Use{})
	}
	if got := try(w.private); got != conditions.BySignature || fetch() {
		t.Errorf("with a key that is known it is verified by %s, or keys are fetched", got)
	}
	if got := try(rotated); got != conditions.Claimed {
		t.Errorf("with a key that is not known it is verified by %s", got)
	}
	if !fetch() || fetch() {
		t.Fatal("a key that is not known is not fetched once")
	}
	if got := try(rotated); got != conditions.BySignature {
		t.Errorf("with a key that was fetched it is verified by %s", got)
	}
	// A set without the key evicts it, and is not fetched for it again at once.
	if got := try(w.private); got != conditions.Claimed || fetch() {
		t.Errorf("the key that is gone verifies by %s, or is fetched at once", got)
	}
	w.now = w.now.Add(fetchAgain)
	w.pub.err = errors.New("unreachable")
	if try(w.private); !fetch() {
		t.Error("it is not fetched after a while")
	}
	if got := try(rotated); got != conditions.BySignature {
		t.Errorf("a fetch that failed evicts the key: %s", got)
	}
	w.now, w.pub.err = w.now.Add(refreshKeys), nil
	if got := try(rotated); got != conditions.BySignature || !fetch() {
		t.Errorf("old keys are not fetched again while they count: %s", got)
	}
	for more, want := range map[string]string{`,"exp":1`: conditions.Claimed, `,"nbf":4102444800000`: conditions.Claimed, `,"nbf":1700000000,"exp":4102444800`: conditions.BySignature} {
		w.pub.body[chatgpt+keysPath] = keySet(rotated, more)
		l.fetch(t.Context(), chatgpt+keysPath)
		if got := try(rotated); got != want {
			t.Errorf("with %s it is verified by %s, want %s", more, got, want)
		}
	}
	// An origin that no operator is known by is never fetched.
	s := newSigning(w.private, w.now)
	s.agent = `sig1="https://agent.example"`
	if w.verified(s.signed(), Use{}); fetch() {
		t.Error("an unknown directory is fetched")
	}
}

// Keys that can no longer be fetched count for a week, also over a restart, and again once they are fetched.
func TestKeysThatCannotBeFetchedEndAfterAWeek(t *testing.T) {
	w := newSignedWorld(t)
	folder, agent := t.TempDir(), FindAgent("openai/chatgpt-agent")
	clock := func() time.Time { return w.now }
	restart := func() { w.d.Lists = NewLists(folder, w.pub.download, clock) }
	fetch := func() { w.d.Lists.fetch(t.Context(), chatgpt+keysPath) }
	want := func(when string, counts bool) {
		t.Helper()
		s := newSigning(w.private, w.now)
		s.nonce = when
		state := ListState{}
		for _, one := range w.d.Lists.States() {
			if one.URL == chatgpt+keysPath {
				state = one
			}
		}
		got := w.verified(s.signed(), Use{}) == conditions.BySignature
		if got != counts || w.d.CanVerify(agent) != counts || state.IsIgnored == counts || state.Keys != 1 {
			t.Errorf("%s: it is verified %v, want %v: %s; the state is %+v", when, got, counts, w.d.Refused(chatgpt+keysPath), state)
		}
		if !counts && w.d.Refused(chatgpt+keysPath) != tooOld {
			t.Errorf("%s: the reason is %q", when, w.d.Refused(chatgpt+keysPath))
		}
	}
	restart()
	fetch()
	want("at first", true)
	w.pub.err = errors.New("unreachable")
	w.now = w.now.Add(KeysBelievedFor - time.Second)
	fetch()
	want("a second before a week", true)
	w.now = w.now.Add(time.Second)
	want("after a week", false)
	restart()
	want("after a week and a restart", false)
	if url := <-w.d.Lists.fetches.waiting; url != chatgpt+keysPath {
		t.Errorf("%s is fetched", url)
	}
	w.pub.err = nil
	fetch()
	want("once they are fetched", true)
	// That they are the same counts as fetched, and is known after a restart.
	w.now, w.pub.same = w.now.Add(KeysBelievedFor), true
	want("a week later", false)
	fetch()
	want("once they are known to be the same", true)
	w.pub.err = errors.New("unreachable")
	restart()
	want("the same, after a restart", true)
	// A file of the future is one of now.
	file := filepath.Join(folder, fileOf(chatgpt+keysPath))
	if err := os.Chtimes(file, time.Time{}, w.now.Add(10*KeysBelievedFor)); err != nil {
		t.Fatal(err)
	}
	restart()
	want("of the future", true)
	w.now = w.now.Add(KeysBelievedFor)
	want("of the future, a week later", false)
}

func TestKeysAreKeptInAFile(t *testing.T) {
	w := newSignedWorld(t)
	folder := t.TempDir()
	clock := func() time.Time { return w.now }
	w.d.Lists = NewLists(folder, w.pub.download, clock)
	w.d.Lists.fetch(t.Context(), chatgpt+keysPath)
	w.d.Lists = NewLists(folder, nil, clock)
	s := newSigning(w.private, w.now)
	if got := w.verified(s.signed(), Use{}); got != conditions.BySignature {
		t.Errorf("after a restart it is verified by %s: %s", got, w.d.Refused(chatgpt+keysPath))
	}
	for _, state := range w.d.Lists.States() {
		if state.URL == chatgpt+keysPath && (state.Keys != 1 || state.File != fileOf(state.URL) || !strings.HasPrefix(state.File, "chatgpt.com-")) {
			t.Errorf("the state is %+v", state)
		}
	}
	if a := FindAgent("openai/chatgpt-agent"); !w.d.CanVerify(a) || (&Directory{Lists: NewLists("", nil, clock)}).CanVerify(a) {
		t.Error("a bot that signs can be verified without its keys, or cannot with them")
	}
	for text, isRead := range map[string]bool{
		`{"keys":[]}`: true, `{"keys":[{"kty":"OKP","crv":"X25519","x":"AA"}]}`: true, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`: true,
		"{}": false, "<html>": false, `{"keys":1}`: false, `{"keys":[` + strings.Repeat(`{},`, maxKeys) + `{}]}`: false, strings.Repeat(" ", maxKeysBytes+1): false,
	} {
		if all, err := readKeys(strings.NewReader(text)); (err == nil) != isRead || len(all) > 0 {
			t.Errorf("%.30s gives %d keys, %v", text, len(all), err)
		}
	}
}

// To verify takes longer than all else: what cannot be good must cost a part of it.
func BenchmarkIdentifySigned(b *testing.B) {
	now := time.Now()
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", 32)))
	p := &publisher{body: map[string]string{chatgpt + keysPath: keySet(private, "")}}
	d := &Directory{Lists: NewLists("", p.download, time.Now), Now: func() time.Time { return now }, IsOurs: isOurs}
	d.Lists.fetch(b.Context(), chatgpt+keysPath)
	about := conditions.NewRequest("/a?b", "GET", "Mozilla/5.0", "www.example.com")
	for _, c := range []struct {
		name   string
		isGood bool
		use    Use
		change func(s *signing)
	}{
		{"good", true, Use{IsPeek: true}, func(*signing) {}}, {"expired", false, Use{}, func(s *signing) { s.expires = now.Unix() }},
		{"unknown key", false, Use{}, func(s *signing) { s.keyID = "unknown" }}, {"used", false, Use{}, func(*signing) {}},
		{"unread", false, Use{IsRefused: true}, func(*signing) {}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSigning(private, now)
			s.nonce = c.name
			c.change(&s)
			sent := s.signed()
			identify := func() Identity {
				again := &conditions.Signed{Method: sent.Method, Scheme: sent.Scheme, Authority: sent.Authority, Agent: sent.Agent, Input: sent.Input, Signature: sent.Signature}
				return d.Identify(about.SayingSigned(again), fromAnywhere, c.use)
			}
			identify() // which uses it
			b.ReportAllocs()
			for b.Loop() {
				if identify().IsVerified() != c.isGood {
					b.Fatal(d.Refused(chatgpt + keysPath))
				}
			}
		})
	}
}
