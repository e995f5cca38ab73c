package httpserver

import (
	"strings"
	"testing"
)

// What is wrong is read from the body, not from the words of the decoder.
func TestSyntaxErrorsSayWhatIsWrong(t *testing.T) {
	for body, want := range map[string]string{
		"{\"key\":\"a\xff\"}":       "is not valid UTF-8",
		"{\"k\xffy\":\"a\"}":        "is not valid UTF-8",
		"{\"key\":\"a\"}\xff":       "is not valid UTF-8",
		`{"key":"a"} {}`:            "continues after its JSON object",
		`{"key":"a"}x`:              "continues after its JSON object",
		`{"key":"after UTF-8" "a"}`: "is not valid JSON",
		`{"key":"\ud800"}`:          "is not valid JSON",
		`{"key":"a"`:                "ends in the middle",
		`{"key":"a","key":"after b`: "is sent twice",
	} {
		var into struct {
			Key string `json:"key"`
		}
		if err := UnmarshalStrict([]byte(body), &into); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", body, err, want)
		}
	}
}
