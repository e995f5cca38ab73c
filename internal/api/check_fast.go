package api

import "github.com/stint-dev/stint/internal/wire"

// fastReader reads the checks that clients usually send without building
// anything but their texts: known fields once each, ASCII without escapes,
// costs in digits. It gives up at anything else, right or wrong, and the
// strict reader then decides; FuzzDecodeCheck holds that where it does not
// give up, both agree.
type fastReader struct {
	text []byte
	at   int
}

// The fields of a check, as bits of what has been seen.
const (
	sawKey = 1 << iota
	sawPolicy
	sawCost
	sawPeek
	sawDetail
	sawSource
	sawMeta
	sawMaxWait
	sawIdempotencyKey
)

// check reads one check and reports whether it could.
func (f *fastReader) check(in *checkInput) bool {
	*in = checkInput{Cost: 1}
	seen := 0
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
		return f.take('}') && seen&sawKey != 0
	}
}

// member reads one value and returns its field's bit, 0 to give up.
func (f *fastReader) member(in *checkInput, name []byte) (bit int) {
	ok := false
	switch string(name) {
	case "key":
		bit = sawKey
		in.Key, ok = f.string()
	case "policy":
		bit = sawPolicy
		in.Policy, ok = f.string()
		ok = ok && in.Policy != ""
	case "cost":
		bit = sawCost
		in.Cost, ok = f.cost()
	case "peek":
		bit = sawPeek
		in.Peek, ok = f.bool()
	case "detail":
		bit = sawDetail
		in.Detail, ok = f.detail()
	case "source":
		bit = sawSource
		in.Source, ok = f.string()
	case "meta":
		bit = sawMeta
		in.Meta, ok = f.meta()
	case "max_wait":
		bit = sawMaxWait
		var text []byte
		if text, ok = f.plain(); ok {
			in.MaxWait, ok = maxWaitOf(string(text))
		}
	case "idempotency_key":
		bit = sawIdempotencyKey
		in.IdempotencyKey, ok = f.string()
		ok = ok && in.IdempotencyKey != "" && len(in.IdempotencyKey) <= wire.MaxID
	}
	if !ok {
		return 0
	}
	return bit
}

// batch reads a whole batch and appends its checks.
func (f *fastReader) batch(inputs []checkInput) ([]checkInput, bool) {
	name, ok := []byte(nil), f.take('{')
	if ok {
		name, ok = f.plain()
	}
	if !ok || string(name) != "checks" || !f.take(':') || !f.take('[') {
		return nil, false
	}
	for len(inputs) < wire.MaxBatch {
		inputs = append(inputs, checkInput{})
		if !f.check(&inputs[len(inputs)-1]) {
			return nil, false
		}
		if !f.take(',') {
			return inputs, f.take(']') && f.take('}') && f.end()
		}
	}
	return nil, false
}

// space skips what JSON allows between tokens.
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

// end reports whether nothing but space is left.
func (f *fastReader) end() bool {
	f.space()
	return f.at == len(f.text)
}

// plain reads a text of printable ASCII without escapes, which it does not copy.
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

// string reads a text and copies it: the body is overwritten by the next request.
func (f *fastReader) string() (string, bool) {
	text, ok := f.plain()
	return string(text), ok
}

// detail reads one of the two texts that it may be, without a copy.
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
	// What follows the digits must be what take finds next, so that 1.5 and
	// 1e3 are not read as 1.
	return cost, f.at > start && f.text[start] != '0' && cost <= wire.MaxCost
}

func (f *fastReader) bool() (value, ok bool) {
	f.space()
	if f.word("true") {
		return true, true
	}
	return false, f.word("false")
}

// word skips the text word, or reports false.
func (f *fastReader) word(word string) bool {
	if len(f.text)-f.at < len(word) || string(f.text[f.at:f.at+len(word)]) != word {
		return false
	}
	f.at += len(word)
	return true
}

func (f *fastReader) meta() (map[string]string, bool) {
	if !f.take('{') {
		return nil, false
	}
	meta := make(map[string]string, 2)
	for len(meta) < wire.MaxMeta {
		name, ok := f.string()
		if !ok || !f.take(':') {
			return nil, false
		}
		if _, twice := meta[name]; twice {
			return nil, false
		}
		if meta[name], ok = f.string(); !ok {
			return nil, false
		}
		if !f.take(',') {
			return meta, f.take('}')
		}
	}
	return nil, false
}
