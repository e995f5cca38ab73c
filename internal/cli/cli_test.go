package cli

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/test/servers"
)

// envNow fixes the clock of a command within a script.
const envNow = "TEST_NOW"

func TestMain(m *testing.M) {
	testscript.Main(quickly{m}, map[string]func(){"admin": func() {
		sys := console.Process()
		if text := os.Getenv(envNow); text != "" {
			now, err := time.Parse(time.RFC3339, text)
			if err != nil {
				panic(err)
			}
			sys.Now = func() time.Time { return now }
		}
		os.Exit(int(Main(os.Args[1:], sys)))
	}})
}

// quickly runs the tests as servers.Main does.
type quickly struct{ *testing.M }

func (m quickly) Run() int { return servers.Run(m.M) }

// realLog is where the real access log is on machines that have it; it is no
// part of this project.
func realLog() string {
	folder := os.Getenv("STINT_TEST_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data")
	}
	path, _ := filepath.Abs(filepath.Join(folder, "apache_access.log.gz"))
	return path
}

func TestOffline(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "offline"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("REALLOG", realLog())
			return endQuickly(env)
		},
		Condition: func(condition string) (bool, error) {
			_, err := os.Stat(realLog())
			return condition == "reallog" && err == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// endQuickly keeps the race detector, where it is on, from sleeping a second at
// the end of each command.
func endQuickly(env *testscript.Env) error {
	env.Setenv("GORACE", "atexit_sleep_ms=10")
	return nil
}

// exits runs a command and checks its exit code: exits CODE COMMAND ARG...
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("the exit code is %s, want %s", got, args[0])
	}
}

// commands returns every command below c and c itself.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

func testRoot() *cobra.Command { return rootOf("admin") }

// rootOf returns the commands of a program that is called by a name.
func rootOf(name string) *cobra.Command {
	return newRoot(&console.Console{System: console.System{
		Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: func(string) string { return "" }, Now: time.Now,
	}})
}

// isBuiltIn reports whether cobra made a command, which then has its own help.
func isBuiltIn(c *cobra.Command) bool {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	return strings.HasPrefix(path, "completion") || path == "help"
}

func TestEveryCommandHasHelpAndAnExample(t *testing.T) {
	for _, c := range commands(testRoot()) {
		if isBuiltIn(c) {
			continue
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the short help is %q", c.CommandPath(), c.Short)
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: no example contains the command: %q", c.CommandPath(), c.Example)
		}
		for _, line := range strings.Split(c.Long, "\n") {
			if len(line) > 100 {
				t.Errorf("%s: the help has a line of %d characters: %q", c.CommandPath(), len(line), line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: the flag --%s has no help text", c.CommandPath(), f.Name)
			}
		})
	}
}

func TestEveryExampleParses(t *testing.T) {
	for _, c := range commands(testRoot()) {
		for _, line := range strings.Split(c.Example, "\n") {
			for _, part := range strings.Split(line, " | ") {
				if at := strings.Index(part, "admin "); at >= 0 && !isBuiltIn(c) {
					checkExample(t, part[at+len("admin "):])
				}
			}
		}
	}
}

// TestExamplesUseTheNameOfTheProgram checks that examples name the program stint-admin, and keep
// the role and the scope admin as they are.
func TestExamplesUseTheNameOfTheProgram(t *testing.T) {
	for _, c := range commands(rootOf("stint-admin")) {
		if isBuiltIn(c) {
			continue
		}
		for _, line := range strings.Split(c.Example, "\n") {
			if !strings.Contains(line, "stint-admin ") {
				t.Errorf("%s: the example does not name stint-admin: %q", c.CommandPath(), line)
			}
			before := "|"
			for _, word := range strings.Fields(line) {
				isFirst := before == "|" || strings.Contains(before, "=") && !strings.HasPrefix(before, "-")
				if named := word == "stint-admin"; named && !isFirst || word == "admin" && isFirst {
					t.Errorf("%s: stint-admin or admin is in the wrong place: %q", c.CommandPath(), line)
				}
				before = word
			}
		}
	}
}

// checkExample parses the words of an example with a fresh tree of commands.
func checkExample(t *testing.T, example string) {
	t.Helper()
	words := shellWords(example)
	c, rest, err := testRoot().Find(words)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err == nil {
		err = c.ValidateRequiredFlags()
	}
	if err == nil {
		err = c.ValidateFlagGroups()
	}
	if err != nil {
		t.Errorf("the example %q: %v", example, err)
	}
}

// shellWords splits a line as a shell does, as far as the examples need:
// quotes, and redirections left out.
func shellWords(line string) []string {
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " < ")
	var words []string
	var word strings.Builder
	quote := rune(0)
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == ' ':
			if word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return words
}

func TestNamedValues(t *testing.T) {
	values, err := namedValues([]string{"account=cn=alice,ou=staff,dc=example", "device=7"})
	if want := map[string]string{"account": "cn=alice,ou=staff,dc=example", "device": "7"}; err != nil || !maps.Equal(values, want) {
		t.Errorf("namedValues = %v, %v, want %v", values, err, want)
	}
	if _, err := namedValues([]string{"alice"}); err == nil {
		t.Error("a value without a name is accepted")
	}
}

// TestCompletionOffersTheValuesOfEnumerations: a shell offers them, and names of files only where
// the help speaks of one.
func TestCompletionOffersTheValuesOfEnumerations(t *testing.T) {
	files := []string{"token-file", "check-token-file", "file", "log", "data-dir", "state", "keys", "truth", "against", "out", "html", "geoip-dir", "never-file"}
	for _, c := range commands(testRoot()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal != "" || f.Name == "help" {
				return
			}
			complete, has := c.GetFlagCompletionFunc(f.Name)
			if !has && !slices.Contains(files, f.Name) {
				t.Errorf("%s --%s offers names of files", c.CommandPath(), f.Name)
			}
			if !has || f.Name == "policy" {
				return
			}
			offered, directive := complete(c, nil, "")
			if directive != cobra.ShellCompDirectiveNoFileComp {
				t.Errorf("%s --%s: directive %d", c.CommandPath(), f.Name, directive)
			}
			if strings.Contains(f.Usage, " or ") && strings.Contains(f.Usage, ", ") && len(offered) == 0 && enumerated.MatchString(f.Usage) {
				t.Errorf("%s --%s offers nothing of %q", c.CommandPath(), f.Name, f.Usage)
			}
		})
		if c.Name() == "list" && !c.HasAlias("ls") || c.Name() == "delete" && !c.HasAlias("rm") {
			t.Errorf("%s has no short name", c.CommandPath())
		}
	}
	for path, want := range map[string]string{
		"block list --state": "active ended all", "block add --on-conflict": "fail keep extend replace", "exemption import --on-conflict": "keep extend replace",
		"policy set --mode": "enforce shadow off", "policy set --on-failure": "local allow deny", "offenders --sort": "offences last first key", "offenders --state": "open blocked exempt",
		"report list --kind": "daily weekly", "events --decision": "allowed limited blocked challenged unavailable", "block list --source": "manual automatic imported", "backtest --format": "auto common combined json csv w3c haproxy alb envoy werkzeug uwsgi",
		"block import --format": "csv json plain auto", "block list --order": "created expiry", "user add --role": "viewer operator admin",
	} {
		command, flag, _ := strings.Cut(path, " --")
		c, _, err := testRoot().Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		complete, has := c.GetFlagCompletionFunc(flag)
		if !has {
			t.Errorf("%s offers nothing", path)
			continue
		}
		if offered, _ := complete(c, nil, ""); strings.Join(offered, " ") != want {
			t.Errorf("%s offers %q, want %s", path, offered, want)
		}
	}
}

// enumerated matches a help that begins with one of several values.
var enumerated = regexp.MustCompile(`^[a-z0-9_]+, [a-z0-9_]+(, [a-z0-9_]+)* or [a-z0-9_]+\b`)

// TestCommandsUseOneVerbPerAction checks that each action has one name in all commands: add, show,
// edit or set, and delete.
func TestCommandsUseOneVerbPerAction(t *testing.T) {
	instead := map[string]string{"create": "add", "new": "add", "get": "show", "describe": "show", "remove": "delete", "revoke": "delete",
		"end": "delete", "lift": "delete", "cancel": "delete", "unblock": "delete", "update": "edit"}
	for _, c := range commands(testRoot()) {
		if verb := instead[c.Name()]; verb != "" {
			t.Errorf("%s: the other commands call this %s", c.CommandPath(), verb)
		}
		if f := c.Flags().Lookup("policy"); f != nil && strings.Contains(f.Usage, "file") {
			t.Errorf("%s: --policy names a policy; a file of policies is --file", c.CommandPath())
		}
	}
}
