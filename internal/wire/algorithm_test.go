package wire

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseOptionsRoundTripsTexts(t *testing.T) {
	texts := []string{"burst=50", "count_refused=true", "window_start=first_request", "variant=queue"}
	o, err := ParseOptions(texts)
	if want := (PolicyOptions{Burst: 50, CountRefused: true, WindowStart: "first_request", Variant: "queue"}); err != nil || o != want {
		t.Fatalf("got %+v, %v", o, err)
	}
	if got := o.Texts(); !reflect.DeepEqual(got, texts) {
		t.Errorf("Texts() = %q, want %q", got, texts)
	}
	if o, err := ParseOptions([]string{"count_refused"}); err != nil || !o.CountRefused {
		t.Errorf("ParseOptions of count_refused without a value = %+v, %v", o, err)
	}
	for text, want := range map[string]string{"burst": "burst=50", "burst=many": "burst=50", "count_refused=perhaps": "true or false", "speed=5": "the options are burst, "} {
		if _, err := ParseOptions([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestPolicyRequestOmitsDefaultOptions(t *testing.T) {
	if got := encode(t, PolicyRequest{Name: "a"}); strings.Contains(got, "options") {
		t.Errorf("got %s, want no options", got)
	}
}
