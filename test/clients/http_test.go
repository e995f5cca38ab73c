package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/testnode"
)

// httpLanguage is how a program of docs/clients/http.md is run: around it a main program that prints for each key of its arguments true or false.
type httpLanguage struct {
	file          string
	before, after string
	compile       []string // nil if the program is not compiled
	run           []string
	isOptional    bool     // not every machine has it; make test-clients fails where it is missing
	slower        []string // a busy machine must not look like an outage
}

var httpLanguages = map[string]httpLanguage{
	"bash":   {"a.bash", "", "\nfor key; do allowed \"$key\" >/dev/null && echo true || echo false; done", nil, []string{"bash", "a.bash"}, false, []string{"--max-time 0.1", "--max-time 60"}},
	"python": {"a.py", "", "\nfor key in sys.argv[1:]: print(str(allowed(key)[0]).lower())", nil, []string{python(), "a.py"}, false, []string{"timeout=0.1", "timeout=60"}},
	"php":    {"a.php", "<?php\n", "\nforeach (array_slice($argv, 1) as $key) echo allowed($key)[0] ? 'true' : 'false', \"\\n\";", nil, []string{"php", "-d", "display_errors=0", "a.php"}, false, []string{"'timeout' => 0.1", "'timeout' => 60"}},
	"ruby":   {"a.rb", "", "\nARGV.each { |key| puts allowed(key)[0] }", nil, []string{"ruby", "a.rb"}, false, []string{"write_timeout = 0.1", "write_timeout = 60"}},
	"java": {"Main.java", "", "\nclass Main { public static void main(String[] keys) throws Exception { for (var key : keys) System.out.println(Stint.refusedFor(key) == 0); } }",
		[]string{"javac", "Main.java"}, []string{"java", "Main"}, true, []string{"ofMillis(100)", "ofMillis(60000)"}},
	"rust": {"main.rs", "", "\nfn main() { for key in std::env::args().skip(1) { println!(\"{}\", allowed(&key)); } }", []string{"rustc", "main.rs"}, []string{"./main"}, true,
		[]string{"from_millis(100)", "from_millis(60000)"}},
}

var httpProgram = regexp.MustCompile("(?ms)^```(bash|python|php|ruby|java|rust|csharp)\n(.*?)^```$")

// The programs of docs/clients/http.md let pass and refuse as Stint says, and let pass what it does not decide.
func TestProgramsForAnyLanguage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	node, c := testnode.Start(t), readCases(t)
	node.Do(t, "PUT", "/v1/policies/any", `{"match":["any:*"],"rules":["2/1d"]}`, 201)
	node.Do(t, "PUT", "/v1/policies/any-shadow?confirm=any-shadow", `{"match":["any:*"],"rules":["100/1d"],"mode":"shadow"}`, 201) // its answer allows
	node.Do(t, "PUT", "/v1/policies/any-never?confirm=any-never", `{"match":["any:never"],"rules":["0/1s"]}`, 201)
	for pattern, more := range map[string]string{"any:blocked": `,"expires_in":"1h"`, "any:for-ever": ""} {
		node.Do(t, "POST", "/v1/blocks", `{"pattern":"`+pattern+`","reason":"\"allowed\":true"`+more+`}`, 201)
	}
	faults := serveFaults(t, c)
	var undecided []int
	for i, f := range c.Faults {
		if slices.Contains([]string{"close", "raw", ""}, f.Server.Kind) && !strings.Contains(f.Server.Body, "allowed") {
			undecided = append(undecided, i)
		}
	}
	if len(undecided) < 8 {
		t.Fatalf("%d faults have no decision", len(undecided))
	}
	seen := 0
	for _, found := range httpProgram.FindAllStringSubmatch(string(page), -1) {
		seen++
		language, is := httpLanguages[found[1]]
		if !is {
			continue // C#, as the page says
		}
		t.Run(found[1], func(t *testing.T) {
			for _, command := range [][]string{language.compile, language.run} {
				if len(command) > 0 && !strings.HasPrefix(command[0], "./") {
					if _, err := exec.LookPath(command[0]); err != nil && language.isOptional && os.Getenv("STINT_TEST_ALL_LANGUAGES") == "" {
						t.Skipf("%s is not installed; make test-clients installs it", command[0])
					}
				}
			}
			key := "any:" + found[1]
			if got := language.ask(t, found[2], node.Check, key, key, key, "any:blocked", "any:for-ever", "any:never"); got != "true true false false false false" {
				t.Errorf("two of two allowed, one beyond, a blocked key, one that is blocked permanently, one that is never allowed: %s", got)
			}
			if got := language.ask(t, found[2], "http://127.0.0.1:1", key); got != "true" {
				t.Errorf("nobody listens: %s", got)
			}
			some := undecided
			switch {
			case found[1] == "rust": // the path of its program cannot be another
				some = nil
			case language.compile != nil: // it takes seconds
				some = undecided[:3]
			}
			for _, i := range some {
				if got := language.ask(t, found[2], faults+"/"+strconv.Itoa(i), key); got != "true" {
					t.Errorf("%s: %s", c.Faults[i].Name, got)
				}
			}
		})
	}
	if seen < 7 {
		t.Errorf("%d programs were found", seen)
	}
}

// ask runs a program that asks the server at url about keys, and returns what it prints.
func (l *httpLanguage) ask(t *testing.T, program, url string, keys ...string) string {
	t.Helper()
	dir := t.TempDir()
	host, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	port, path, _ := strings.Cut(port, "/")
	if path != "" {
		path = "/" + path
	}
	text := strings.NewReplacer(append(l.slower, "http://127.0.0.1:8080/v1", url+"/v1", "'127.0.0.1', 8080", "'"+host+"', "+port, "[127, 0, 0, 1], 8080", "[127, 0, 0, 1], "+port, "'/v1/check'", "'"+path+"/v1/check'")...).Replace(program)
	if err := os.WriteFile(filepath.Join(dir, l.file), []byte(l.before+text+l.after), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.compile != nil {
		compile := exec.CommandContext(t.Context(), l.compile[0], l.compile[1:]...)
		compile.Dir = dir
		if out, err := compile.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run := exec.CommandContext(t.Context(), l.run[0], append(l.run[1:], keys...)...)
	run.Dir = dir
	var errors strings.Builder
	run.Stderr = &errors
	out, err := run.Output()
	if err != nil {
		t.Errorf("%v: %s", err, errors.String())
	}
	return strings.Join(strings.Fields(string(out)), " ")
}
