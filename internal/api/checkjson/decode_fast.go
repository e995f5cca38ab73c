package checkjson

import "github.com/stint-dev/stint/internal/wire"

// Fast path. Plain version: decodeStrict over jsontext. Benchmark:
// BenchmarkDecodeCheck, 6 to 9 times faster.

// fastReader reads checks in the common form and allocates only their strings: known fields at
// most once each, ASCII without escapes, costs in digits. It reports false for any other text,
// valid or not, which decodeStrict then reads. FuzzDecodeCheck tests that both agree.
type fastReader struct {
	text []byte
	at   int
}

// fields is a set of the fields of a check.
type fields uint16

const (
	hasKey fields = 1 << iota
	hasPolicy
	hasCost
	hasPeek
	hasDetail
	hasSource
	hasMeta
	hasMaxWait
	hasIdempotencyKey
	hasRequest
	hasValues
	hasHold
	hasCancellable
)

// check reads one check and reports whether it succeeded.
func (f *fastReader) check(in *Check) bool {
	*in = Check{}
	seen := fields(0)
	if !f.take('{') {
		return false
	}
	for {
		name, ok := f.plain()
		if !ok || !f.take(':') {
			return false
		}
		bit := f.member(in, name)
		if bit == 0 || seen&bit != 0 {
			return false
		}
		seen |= bit
		if f.take(',') {
			continue
		}
		return f.take('}') && seen&hasKey != 0 && (in.Hold == 0 || in.MaxWait == 0)
	}
}

// member reads one value and returns its field, 0 if it failed.
func (f *fastReader) member(in *Check, name []byte) (bit fields) {
	ok := false
	switch string(name) {
	case "key":
		bit = hasKey
		in.Key, ok = f.string()
	case "policy":
		bit = hasPolicy
		in.Policy, ok = f.string()
		ok = ok && in.Policy != ""
	case "cost":
		bit = hasCost
		in.Cost, ok = f.cost()
	case "peek":
		bit = hasPeek
		in.Peek, ok = f.bool()
	case "detail":
		bit = hasDetail
		in.Detail, ok = f.detail()
	case "source":
		bit = hasSource
		in.Source, ok = f.string()
	case "meta":
		bit = hasMeta
		in.Meta, ok = f.texts(wire.MaxMeta)
	case "request":
		bit = hasRequest
		ok = f.request(&in.Request)
	case "values":
		bit = hasValues
		in.Values, ok = f.texts(wire.MaxValues)
	case "max_wait":
		bit = hasMaxWait
		var text []byte
		if text, ok = f.plain(); ok {
			in.MaxWait, ok = maxWaitOf(string(text))
		}
	case "cancellable":
		bit = hasCancellable
		in.Cancellable, ok = f.bool()
	case "hold":
		bit = hasHold
		var text []byte
		if text, ok = f.plain(); ok {
			in.Hold, ok = holdOf(string(text))
		}
	case "idempotency_key":
		bit = hasIdempotencyKey
		in.IdempotencyKey, ok = f.string()
		ok = ok && in.IdempotencyKey != "" && len(in.IdempotencyKey) <= wire.MaxID
	}
	if !ok {
		return 0
	}
	return bit
}

// batch reads a whole batch and appends its checks.
func (f *fastReader) batch(checks []Check) ([]Check, bool) {
	name, ok := []byte(nil), f.take('{')
	if ok {
		name, ok = f.plain()
	}
	if !ok || string(name) != "checks" || !f.take(':') || !f.take('[') {
		return nil, false
	}
	for len(checks) < wire.MaxBatch {
		checks = append(checks, Check{})
		if !f.check(&checks[len(checks)-1]) {
			return nil, false
		}
		if !f.take(',') {
			return checks, f.take(']') && f.take('}') && f.end()
		}
	}
	return nil, false
}

// space skips white space.
func (f *fastReader) space() {
	for f.at < len(f.text) {
		switch f.text[f.at] {
		case ' ', '\t', '\r', '\n':
			f.at++
		default:
			return
		}
	}
}

// take skips space and the character c, or reports false.
func (f *fastReader) take(c byte) bool {
	f.space()
	if f.at >= len(f.text) || f.text[f.at] != c {
		return false
	}
	f.at++
	return true
}

// end reports whether only white space is left.
func (f *fastReader) end() bool {
	f.space()
	return f.at == len(f.text)
}

// plain reads a string of printable ASCII without escapes and does not copy it.
func (f *fastReader) plain() ([]byte, bool) {
	if !f.take('"') {
		return nil, false
	}
	start := f.at
	for ; f.at < len(f.text); f.at++ {
		switch c := f.text[f.at]; {
		case c == '"':
			f.at++
			return f.text[start : f.at-1], true
		case c < ' ' || c > '~' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// string reads a string as plain does, and copies it, because the next request overwrites the
// body.
func (f *fastReader) string() (string, bool) {
	text, ok := f.plain()
	return string(text), ok
}

// detail reads a known detail without copying it.
func (f *fastReader) detail() (string, bool) {
	text, ok := f.plain()
	switch {
	case ok && string(text) == wire.DetailNone:
		return wire.DetailNone, true
	case ok && string(text) == wire.DetailRules:
		return wire.DetailRules, true
	}
	return "", false
}

func (f *fastReader) cost() (int, bool) {
	f.space()
	cost, start := 0, f.at
	for ; f.at < len(f.text) && f.at < start+5; f.at++ {
		c := f.text[f.at]
		if c < '0' || c > '9' {
			break
		}
		cost = 10*cost + int(c-'0')
	}
	// The caller then expects a comma or brace, so 1.5 and 1e3 are not read as 1.
	return cost, f.at > start && f.text[start] != '0' && cost <= wire.MaxCost
}

func (f *fastReader) bool() (value, ok bool) {
	f.space()
	if f.word("true") {
		return true, true
	}
	return false, f.word("false")
}

// word skips word, or reports false.
func (f *fastReader) word(word string) bool {
	if len(f.text)-f.at < len(word) || string(f.text[f.at:f.at+len(word)]) != word {
		return false
	}
	f.at += len(word)
	return true
}

// texts reads an object of at most the given number of strings.
func (f *fastReader) texts(most int) (map[string]string, bool) {
	if !f.take('{') {
		return nil, false
	}
	texts := make(map[string]string, 2)
	for len(texts) < most {
		name, ok := f.string()
		if !ok || !f.take(':') {
			return nil, false
		}
		if _, twice := texts[name]; twice {
			return nil, false
		}
		if texts[name], ok = f.string(); !ok {
			return nil, false
		}
		if !f.take(',') {
			return texts, f.take('}')
		}
	}
	return nil, false
}
