package console

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/atomicfile"
	"github.com/stint-dev/stint/internal/wholefile"
)

// EnvContext is the variable with the name of the context to use.
const EnvContext = "STINT_CONTEXT"

// Context contains the addresses of one installation. It contains no secret, only the names of
// files with secrets.
type Context struct {
	URL            string `yaml:"url,omitempty" json:"url,omitzero"`
	CheckURL       string `yaml:"check_url,omitempty" json:"check_url,omitzero"`
	TokenFile      string `yaml:"token_file,omitempty" json:"token_file,omitzero"`
	CheckTokenFile string `yaml:"check_token_file,omitempty" json:"check_token_file,omitzero"`
}

// Contexts is the file of named contexts.
type Contexts struct {
	Current  string             `yaml:"current,omitempty"` // the default context; "" for none
	Contexts map[string]Context `yaml:"contexts"`
}

// Names returns the names, sorted.
func (c *Contexts) Names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

var contextName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CheckContextName returns a usage error for a name that no context may have.
func CheckContextName(name string) error {
	if !contextName.MatchString(name) {
		return Usagef("a context's name is up to 63 lower case letters, digits, dots, dashes and underscores, not %q", name)
	}
	return nil
}

// contextsFile returns the path of the file, "" if there is no folder for it.
func (c *Console) contextsFile() string {
	if dir := c.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stint", "contexts.yaml")
	}
	if home := c.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "stint", "contexts.yaml")
	}
	return ""
}

// ReadContexts reads the file of contexts; a missing one has none.
func (c *Console) ReadContexts() (*Contexts, error) {
	all := &Contexts{Contexts: map[string]Context{}}
	path := c.contextsFile()
	if path == "" {
		return all, nil
	}
	text, err := wholefile.Read(path, wholefile.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(all); err != nil {
		return nil, Usagef("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if all.Contexts == nil {
		all.Contexts = map[string]Context{}
	}
	return all, nil
}

// WriteContexts replaces the file of contexts.
func (c *Console) WriteContexts(all *Contexts) error {
	path := c.contextsFile()
	if path == "" {
		return Usagef("contexts are kept below XDG_CONFIG_HOME or HOME, and neither is set")
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, text, 0o600)
}

// GivenContext returns the context of the global flags, with absolute paths of files.
func (c *Console) GivenContext() (given Context, err error) {
	given = Context{URL: c.url, CheckURL: c.checkURL, TokenFile: c.tokenFile, CheckTokenFile: c.checkTokenFile}
	for _, file := range []*string{&given.TokenFile, &given.CheckTokenFile} {
		if *file == "" || strings.HasPrefix(*file, "~/") {
			continue
		}
		if *file, err = filepath.Abs(*file); err != nil {
			return given, err
		}
	}
	return given, nil
}

// contexts returns two contexts: the one named by --context or STINT_CONTEXT, which takes
// precedence over the other environment variables, and the current one, over which they take
// precedence.
func (c *Console) contexts() (named, current Context, err error) {
	name := FirstOf(c.context, c.Getenv(EnvContext))
	all, err := c.ReadContexts()
	if err != nil {
		return named, current, err
	}
	if name != "" {
		found, exists := all.Contexts[name]
		if !exists {
			return named, current, &ExitError{NotFound, fmt.Errorf("there is no context %q; see 'context list'", name)}
		}
		return found, current, nil
	}
	return named, all.Contexts[all.Current], nil
}
