package policyfile

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

const canonicalFile = `policies:
  - name: default
    match: ['*']
    rules: [1/1s, 20/1m]
    mode: enforce
    on_failure: local
    algorithm: timestamp_log
  - name: guessing
    match: ['ip:*']
    when:
      path:
        - /login
    outcome: login_failed
    rules: [20/1d]
    also:
      - account 10/1h
      - net:/24
    mode: enforce
    on_failure: local
    algorithm: timestamp_log
  - name: search
    match: ['token:*', 'token:test_\*']
    rules: [5/10s]
    mode: shadow
    on_failure: deny
    algorithm: sorted_set_log
    options: {count_refused: true}
    escalation:
      threshold: 100
      window: 10m
      duration: 1h
      factor: 1.5
      max_duration: 1d
      decay_after: 6d
`

func read(t *testing.T, text string) []wire.PolicyRequest {
	t.Helper()
	policies, err := Read(strings.NewReader(text), "p.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

func TestCanonicalFileRoundTrip(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, read(t, canonicalFile)); err != nil {
		t.Fatal(err)
	}
	if out.String() != canonicalFile {
		t.Errorf("Write after Read: got\n%s\nwant\n%s", out.String(), canonicalFile)
	}
}

func TestEquivalentFilesReadAsEqualPolicies(t *testing.T) {
	want := read(t, canonicalFile)[0]
	for name, text := range map[string]string{
		"one policy by itself":     "name: default\nmatch: ['*']\nrules: [20/min, 1/s]\n",
		"JSON":                     `{"name":"default","match":["*"],"rules":["1/s","20/m"],"mode":"enforce"}`,
		"a rule that occurs twice": "policies: [{name: default, match: ['*'], rules: [1/s, 20/60s, 20/m]}]",
	} {
		if got := read(t, text); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s: Read: got %+v, want %+v", name, got, want)
		}
	}
}

func TestReadErrorsNameTheirPlace(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"an empty file":       {"", "p.yaml: the file is empty"},
		"a list at the top":   {"- name: x\n", "p.yaml: line 1: the file must begin with policies:"},
		"an unknown field":    {"policies:\n  - name: x\n    rule: [1/s]\n", "p.yaml: line 3: field rule is not a field of a policy"},
		"a field given twice": {"name: x\nname: y\n", "p.yaml: line 2: mapping key \"name\" already defined at line 1"},
		"a second document":   {"name: x\n---\nname: y\n", "p.yaml: the file has more than one YAML document"},
		"a wrong type":        {"name: x\nmatch: 5\n", "p.yaml: line 2: cannot unmarshal int `5` into a list of strings"},
		"a bad rule":          {"policies:\n  - name: a\n    match: ['*']\n    rules: [1/s, 20/x]\n", `p.yaml:2: policy "a": rules[1]: the rule "20/x" has the unit "x"`},
		"a bad pattern":       {"name: a\nmatch: ['ip:10.1*']\nrules: [1/s]\n", `p.yaml:1: policy "a": match[0]: the pattern is not a network`},
		"a bare IPv6 address": {"name: a\nmatch: ['ip:2001:db8::1']\nrules: [1/s]\n", "match[0]: a bare IPv6 address means a network"},
		"no pattern":          {"name: a\nrules: [1/s]\n", "match is empty"},
		"a bad mode":          {"name: a\nmatch: ['*']\nmode: on\n", "mode must be enforce, shadow or off"},
		"a bad name":          {"name: A b\nmatch: ['*']\n", "name must be"},
		"a bad duration":      {"name: a\nmatch: ['*']\nescalation: {threshold: 1, window: soon}\n", "escalation.window must be a length of time"},
		"a name given twice":  {"policies:\n  - {name: a, match: ['*'], rules: []}\n  - {name: a, match: ['*'], rules: []}\n", `p.yaml:3: policy "a": name occurs a second time`},
		"no rules":            {"name: a\nmatch: ['*']\n", "rules is missing; write [] for a policy that allows everything"},
		"rules without any":   {"name: a\nmatch: ['*']\nrules:\n#  - 5/s\n", "rules is missing"},
		"no such algorithm":   {"name: a\nmatch: ['*']\nalgorithm: guess\n", "algorithm must be one of timestamp_log, "},
		"no such option":      {"name: a\nmatch: ['*']\noptions: {brust: 5}\n", "p.yaml: line 3: field brust is not an option of an algorithm"},
		"another's option":    {"name: a\nmatch: ['*']\noptions: {burst: 5}\n", "options.burst is not an option of timestamp_log, which takes none"},
		"a bad option":        {"name: a\nmatch: ['*']\noptions: {burst: lots}\n", "p.yaml: line 3: cannot unmarshal"},
		"an empty item":       {"name: a\nmatch: ['*']\nrules:\n  - 1/s\n  - # 20/m\n", "p.yaml: line 5: item 2 of rules is empty"},
		"a null item":         {"name: a\nmatch: ['*', null]\nrules: []\n", "p.yaml: line 2: item 2 of match is empty"},
		"a null below when":   {"name: a\nmatch: ['*']\nwhen:\n  path: [~, /login]\nrules: []\n", "p.yaml: line 4: item 1 of path is empty"},
		"a null by its alias": {"name: a\nmatch: ['*']\nwhen: {path: &none }\nalso: [*none]\nrules: []\n", "p.yaml: line 4: item 1 of also is empty"},
		"an empty policy":     {"policies:\n  -\n  - {name: a, match: ['*'], rules: [1/x]}\n", "p.yaml: line 2: item 1 of policies is empty"},
		"no list":             {"policies:\n", "p.yaml: line 1: policies has no value; write a list below it, or policies: [] for none"},
		"a null list":         {`{"policies": null}`, "p.yaml: line 1: policies has no value"},
		"no YAML":             {"policies: [\n", "p.yaml: line"},
	} {
		_, err := Read(strings.NewReader(test.text), "p.yaml")
		switch {
		case err == nil:
			t.Errorf("%s: Read: got no error", name)
		case !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: the error is %q, want %q in it", name, err, test.want)
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: the error has more than one line: %q", name, err)
		}
	}
}
