// Package console is shared by all commands: the process, the global flags, the terminal and
// the exit codes.
package console

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wholefile"
)

// The environment variables that replace flags.
const (
	EnvURL        = "STINT_ADMIN_URL"
	EnvCheckURL   = "STINT_CHECK_URL"
	EnvToken      = "STINT_ADMIN_TOKEN"
	EnvCheckToken = "STINT_CHECK_TOKEN"
)

// System is the process that commands run in.
type System struct {
	Name   string // name by which the program was called
	Stdin  *os.File
	Stdout *os.File
	Stderr *os.File
	Getenv func(string) string
	Now    func() time.Time
}

// Process returns this process as a System.
func Process() System {
	return System{
		Name: programName(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now,
	}
}

func programName() string {
	if len(os.Args) == 0 {
		return "admin"
	}
	return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
}

// Console is the process with its global flags.
type Console struct {
	System
	// Interrupted is closed when the command shall end; nil means never.
	Interrupted <-chan struct{}

	context        string // the name of a context
	url            string
	checkURL       string
	tokenFile      string
	checkTokenFile string
	Format         string // of responses: an output.Format

	out Stdout
}

// AddFlags adds the global flags to the root command.
func (c *Console) AddFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&c.context, "context", "", "the context to use, which 'context set' has created (STINT_CONTEXT)")
	flags.StringVar(&c.url, "url", "", "address of the admin listener (STINT_ADMIN_URL; http://127.0.0.1:8081)")
	flags.StringVar(&c.checkURL, "check-url", "", "address of the check listener (STINT_CHECK_URL; http://127.0.0.1:8080)")
	flags.StringVar(&c.tokenFile, "token-file", "", "file that contains the admin token (STINT_ADMIN_TOKEN)")
	flags.StringVar(&c.checkTokenFile, "check-token-file", "", "file that contains the token of the check listener (STINT_CHECK_TOKEN)")
	flags.StringVarP(&c.Format, "output", "o", string(output.Table), "how to print answers: table, json, yaml or csv")
	CompleteFlag(root, "output", string(output.Table), string(output.JSON), string(output.YAML), string(output.CSV))
}

// Listener contains the names of a listener's address and token in flags, in the file of
// contexts and in the environment.
type Listener struct {
	Name                string
	URLFlag, EnvURL     string
	TokenFlag, EnvToken string
	tokenField          string
	Default             string // its default address
}

// The listeners of a server.
var (
	Admin  = Listener{"admin listener", "--url", EnvURL, "--token-file", EnvToken, "token_file", "http://127.0.0.1:8081"}
	Checks = Listener{"check listener", "--check-url", EnvCheckURL, "--check-token-file", EnvCheckToken, "check_token_file", "http://127.0.0.1:8080"}
)

// endpoint is the address of a listener and the file with its token, from one source.
type endpoint struct{ url, tokenFile string }

// AdminListener returns the address of the admin listener and its token, which is empty
// if none is set.
func (c *Console) AdminListener() (base, token string, err error) {
	named, current, err := c.contexts()
	if err != nil {
		return "", "", err
	}
	return c.listener(Admin,
		endpoint{c.url, c.tokenFile}, endpoint{named.URL, named.TokenFile}, endpoint{current.URL, current.TokenFile})
}

// CheckListener returns the address of the check listener and its token, which is empty
// if none is set.
func (c *Console) CheckListener() (base, token string, err error) {
	named, current, err := c.contexts()
	if err != nil {
		return "", "", err
	}
	return c.listener(Checks,
		endpoint{c.checkURL, c.checkTokenFile}, endpoint{named.CheckURL, named.CheckTokenFile}, endpoint{current.CheckURL, current.CheckTokenFile})
}

// listener chooses the address of a listener and its token. A token must not be sent to a host
// that it is not for: the token of a context is only used with the context's address, and the
// token of the environment never with an address that only a context sets.
func (c *Console) listener(is Listener, given, named, current endpoint) (base, token string, err error) {
	fromEnv := c.Getenv(is.EnvURL)
	base = FirstOf(given.url, named.url, fromEnv, current.url, is.Default)
	isOf := func(url string) bool { return strings.TrimSuffix(base, "/") == strings.TrimSuffix(url, "/") }
	token = strings.TrimSpace(c.Getenv(is.EnvToken))
	switch {
	case given.tokenFile != "":
		token, err = c.readToken(is.TokenFlag, given.tokenFile)
	case named.tokenFile != "" && isOf(FirstOf(named.url, is.Default)):
		token, err = c.readToken("the "+is.tokenField+" of the context", named.tokenFile)
	case token != "" && given.url == "" && FirstOf(named.url, current.url) != "" && !isOf(fromEnv) && !isOf(is.Default):
		err = Usagef("%s is set, but the address %s is that of a context, for which the token may not be; set %s too, or give %s, or unset %s",
			is.EnvToken, base, is.EnvURL, is.TokenFlag, is.EnvToken)
	case token == "" && current.tokenFile != "" && isOf(FirstOf(current.url, is.Default)):
		token, err = c.readToken("the "+is.tokenField+" of the context", current.tokenFile)
	}
	if err != nil {
		return "", "", err
	}
	return base, token, nil
}

// readToken reads a token from a file; source names the setting in messages.
func (c *Console) readToken(source, file string) (string, error) {
	if rest, inHome := strings.CutPrefix(file, "~/"); inHome {
		file = filepath.Join(c.Getenv("HOME"), rest)
	}
	text, err := readSecretFile(c, file)
	if errors.Is(err, context.Canceled) {
		return "", err
	}
	if err != nil {
		return "", Usagef("%s: %w", source, err)
	}
	return strings.TrimSpace(text), nil
}

// maxSecretFile is the maximum size of a file that contains a token, in bytes.
const maxSecretFile = 4 << 10

func readSecretFile(c *Console, path string) (string, error) {
	text, err := await(c, func() ([]byte, error) { return wholefile.Read(path, maxSecretFile) })
	switch {
	case err != nil:
		return "", err
	case strings.TrimSpace(string(text)) == "":
		return "", errors.New(path + " is empty")
	}
	return string(text), nil
}

// FirstOf returns the first of the texts that is not empty.
func FirstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// CompleteFlag completes a flag with its values. It panics if there is no such flag.
func CompleteFlag(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}
