package app

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/manual"
	"github.com/stint-dev/stint/internal/openid"
	"github.com/stint-dev/stint/internal/wholefile"
)

// ErrHelp is returned by Load when the usage or the version was requested and
// printed.
var ErrHelp = pflag.ErrHelp

// Load reads the settings and validates them. The value of each setting is the first of these:
// its flag, its environment variable, systemd's credential of its name, its value in the file
// named by --config, its default. Errors are one line each.
func Load(args, environ []string) (Settings, error) {
	s, faults := load(args, environ)
	if len(faults) > 0 {
		return Settings{}, faults[0]
	}
	return s, nil
}

// load is Load, but returns all errors that it finds.
func load(args, environ []string) (Settings, []error) {
	s, faults := loadUnnamed(args, environ)
	for i, fault := range faults {
		faults[i] = s.bySource(fault)
	}
	return s, faults
}

// loadUnnamed is load, but its errors name settings by their flags.
func loadUnnamed(args, environ []string) (Settings, []error) {
	var s Settings
	options := s.options()
	flags := newFlags(options)
	if err := flags.Parse(args); err != nil {
		return Settings{}, []error{fmt.Errorf("%w%s; see --help", err, meantFlag(flags, err))}
	}
	if version, _ := flags.GetBool("version"); version {
		fmt.Fprintln(os.Stdout, buildinfo.Read())
		return Settings{}, []error{ErrHelp}
	}
	if flags.NArg() > 0 {
		return Settings{}, []error{fmt.Errorf("%q is not a setting; settings are flags such as --listen, see --help", flags.Arg(0))}
	}
	values, faults := s.readValues(options, flags, environ)
	if len(faults) > 0 {
		return s.unread(), faults
	}
	for _, o := range options {
		if err := o.value.set(values[o.name]); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", o.label(), err))
		}
	}
	if len(faults) > 0 {
		return s.unread(), faults
	}
	s.Notify.Pages = strings.TrimRight(s.Notify.Pages, "/")
	if s.NodeName == "" {
		s.NodeName, _ = os.Hostname()
	}
	if s.OpenID.Enabled() && s.OpenID.RedirectURL == "" && s.Notify.Pages != "" {
		s.OpenID.RedirectURL = s.Notify.Pages + openid.CallbackPath
	}
	if err := s.validate(); err != nil {
		return s.unread(), []error{err}
	}
	return s, nil
}

// unread returns what is known of settings that are not valid: the hints, and where they are given.
func (s *Settings) unread() Settings { return Settings{Hints: s.Hints, sources: s.sources} }

// sourced is an error that names settings by where they are given.
type sourced struct {
	error
	text string
}

func (e *sourced) Error() string { return e.text }

// Unwrap returns the error that names settings by their flags.
func (e *sourced) Unwrap() error { return e.error }

// settingNames matches flags and variables.
var settingNames = regexp.MustCompile(`--[a-z][a-z0-9-]*|STINT_[A-Z0-9_]+`)

// bySource returns an error, which names settings by their flags or variables, with those that
// are given elsewhere named by where they are given: operators look there. It leaves nil.
func (s *Settings) bySource(err error) error {
	if err == nil || len(s.sources) == 0 {
		return err
	}
	text := settingNames.ReplaceAllStringFunc(err.Error(), func(written string) string {
		name := strings.TrimPrefix(written, "--")
		if variable, is := strings.CutPrefix(written, "STINT_"); is {
			name = strings.ToLower(strings.ReplaceAll(variable, "_", "-"))
		}
		return cmp.Or(s.sources[name], s.sources[strings.TrimSuffix(name, fileSuffix)], written)
	})
	return &sourced{err, text}
}

// meantFlag returns what to add to the error of an unknown flag, "" for nothing.
func meantFlag(flags *pflag.FlagSet, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return didYouMean("--", unknown.GetSpecifiedName(), names)
}

// didYouMean asks whether one of the names was meant, each with a prefix, "" if none is near.
func didYouMean(prefix, written string, names []string) string {
	near := nearest(written, names)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(near, " or "+prefix) + "?"
}

func newFlags(options []option) *pflag.FlagSet {
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags.SortFlags = false
	for _, o := range options {
		if !o.secret {
			flags.String(o.name, o.preset, o.help+" ("+o.variable()+")")
		}
		if o.readsFile() {
			flags.String(o.name+fileSuffix, "", "a file that contains "+o.label()+" ("+o.variable()+"_FILE)")
		}
	}
	flags.String("config", "", "a YAML file of settings (STINT_CONFIG)")
	flags.Bool("version", false, "print the version")
	flags.Usage = func() {
		fmt.Fprintf(os.Stdout, usage, flags.FlagUsages(), strings.Join(secretVariables(options), ", "))
	}
	return flags
}

// secretVariables returns the variables of the settings that have no flag.
func secretVariables(options []option) (names []string) {
	for _, o := range options {
		if o.secret {
			names = append(names, o.variable())
		}
	}
	return names
}

// manualPage returns what the help says as a page of the manual.
func manualPage() manual.Page {
	options := new(Settings).options()
	flags := newFlags(options)
	head, notes, _ := strings.Cut(usage, "%s\n")
	about, synopsis, _ := strings.Cut(head, "\n\nUsage: ")
	synopsis, alone, _ := strings.Cut(synopsis, "\n\n")
	return manual.Page{Name: "stint-server", Section: 8, Short: "run one node of Stint", Sections: []manual.Section{
		{Head: "Synopsis", Lines: strings.ReplaceAll(synopsis, "\n       ", "\n")},
		{Head: "Description", Text: about + "\n\n" + alone},
		{Head: "Options", Flags: flags},
		{Head: "Settings", Text: fmt.Sprintf(notes, strings.Join(secretVariables(options), ", "))},
		{Head: "See also", Pages: []string{"stint-admin(1)"}},
	}}
}

const usage = `Stint answers whether a key may make one more request, and blocks repeat offenders.

Usage: stint-server [flags]
       stint-server demo                look around: made-up clients, in a temporary folder
       stint-server config check FILE   validate a settings file, with the environment
       stint-server config example      print a settings file with every setting and its default
       stint-server config reference    print every setting as docs/SETTINGS.md has it
       stint-server health              ask the node with these settings whether it is ready
       stint-server man                 print this as a manual page

With no flags it runs on this machine alone: logs in memory, SQLite in ./data.

%s
A flag wins over its environment variable, which wins over systemd's credential of the
setting's name, which wins over the file. On SIGHUP the settings are read again:
certificates, log level, trusted proxies and allowed hosts change at once.
From the environment, a credential or a file only: %s.
`

// fileSuffix is the suffix of the setting that names the file with another setting's value.
const fileSuffix = "-file"

// maxSecretFile bounds a file that holds one setting.
const maxSecretFile = 64 << 10

// layer is a source of settings.
type layer struct {
	// text returns the text of the named setting, false if there is none.
	text func(name string) (string, bool)
	// label returns how errors name a setting that is given here.
	label func(name string) string
	// isFolder means that a secret is always in a file here, so that a text of another layer does
	// not contradict that file.
	isFolder bool
}

// readValues returns the text of each option by name, from the first layer that has it, or its
// default.
func (s *Settings) readValues(options []option, flags *pflag.FlagSet, environ []string) (map[string]string, []error) {
	variables := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		variables[name] = value
	}
	path := configPath(flags, variables)
	ofFile, hints, faults := readSettingsFile(path, options)
	s.Hints = slices.Concat(hints, unknownVariables(environ, options))
	folder := variables["CREDENTIALS_DIRECTORY"]
	plain, unreadable := plainCredentials(folder, options)
	faults = append(faults, unreadable...)
	layers := []layer{
		{text: func(name string) (string, bool) {
			f := flags.Lookup(name)
			return flagText(f), f != nil && f.Changed
		}, label: func(name string) string { return "--" + name }},
		{text: func(name string) (string, bool) {
			value, found := variables[variableOf(name)]
			return value, found
		}, label: variableOf},
		{text: credentialFiles(folder, plain), isFolder: true, label: func(name string) string {
			return "the credential " + strings.TrimSuffix(name, fileSuffix)
		}},
		{text: func(name string) (string, bool) {
			value, found := ofFile[name]
			return value, found
		}, label: func(name string) string { return name + " in " + path }},
	}
	s.sources = map[string]string{}
	values := make(map[string]string, len(options))
	for _, o := range options {
		value, source, err := o.read(layers)
		if err != nil {
			faults = append(faults, err)
		} else if source != "" {
			s.sources[o.name] = source
		}
		if values[o.name] = strings.TrimSpace(value); values[o.name] == "" {
			values[o.name] = o.preset
		}
	}
	return values, faults
}

func flagText(f *pflag.Flag) string {
	if f == nil {
		return ""
	}
	return f.Value.String()
}

// plainCredentials returns the texts of the settings in a folder of credentials that are not
// secret, by name. A Kubernetes Secret may contain any setting. A folder that this user cannot
// read is a fault: without its settings a node would run as another one than is meant.
func plainCredentials(folder string, options []option) (texts map[string]string, faults []error) {
	texts = map[string]string{}
	if folder != "" {
		if _, err := os.ReadDir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return texts, []error{fmt.Errorf("CREDENTIALS_DIRECTORY: %s", oneLine(err))}
		}
	}
	for i := range options {
		o := &options[i]
		path := filepath.Join(folder, o.name)
		if folder == "" || o.readsFile() {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			continue
		}
		text, err := o.readFile(path, "the credential "+o.name)
		if err != nil {
			faults = append(faults, err)
		}
		texts[o.name] = text
	}
	return texts, faults
}

// credentialFiles returns the texts of the layer of a folder with a file for each setting, as systemd
// creates it for LoadCredential=admin-token:/etc/stint/admin-token. plain are the texts of its
// settings that are not secret.
func credentialFiles(folder string, plain map[string]string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		if text, found := plain[name]; found {
			return text, true
		}
		path := filepath.Join(folder, strings.TrimSuffix(name, fileSuffix))
		if folder == "" || !strings.HasSuffix(name, fileSuffix) {
			return "", false
		}
		_, err := os.Stat(path)
		return path, err == nil
	}
}

// read returns the text of a setting from the first layer that has it, "" if none has, and how
// errors name the setting there. A secret and the file of it are an error, even in two layers: one
// of them would be ignored, and it is not known which is meant.
func (o *option) read(layers []layer) (text, source string, err error) {
	var file, textSource, fileSource string
	for _, from := range layers {
		given, isGiven := from.text(o.name)
		if !o.readsFile() {
			if isGiven {
				return given, from.label(o.name), nil
			}
			continue
		}
		if isGiven && given != "" && textSource == "" {
			text, textSource = given, from.label(o.name)
		}
		path, isNamed := from.text(o.name + fileSuffix)
		switch isNamed = isNamed && path != ""; {
		case isNamed && from.isFolder && (textSource != "" || fileSource != ""):
			// The layers before it win.
		case isNamed && from.isFolder:
			text, err := o.readFile(path, from.label(o.name))
			return text, from.label(o.name), err
		case isNamed && fileSource == "":
			file, fileSource = path, from.label(o.name+fileSuffix)
		}
	}
	switch {
	case textSource != "" && fileSource != "":
		return "", "", fmt.Errorf("%s and %s are both given; give one of them", textSource, fileSource)
	case fileSource != "":
		text, err := o.readFile(file, fileSource)
		return text, fileSource, err
	}
	return text, textSource, nil
}

// readFile returns the text of a file without its final line break. source is how its errors name
// the setting.
func (o *option) readFile(path, source string) (string, error) {
	content, err := wholefile.Read(path, maxSecretFile)
	text := strings.TrimSpace(string(content))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %s", source, oneLine(err))
	case text == "":
		return "", fmt.Errorf("%s: the file %s is empty", source, path)
	case bytes.ContainsAny([]byte(text), "\n\x00"):
		return "", fmt.Errorf("%s: the file %s must hold one line", source, path)
	}
	return text, nil
}

// readSettingsFile returns the settings of a YAML file by name, and hints on how to write them.
// It returns nothing for the path "".
func readSettingsFile(path string, options []option) (values map[string]string, hints []string, faults []error) {
	if path == "" {
		return nil, nil, nil
	}
	names := map[string]bool{}
	for _, o := range options {
		names[o.name] = true
		if o.readsFile() {
			names[o.name+fileSuffix] = true
		}
	}
	const nested = "\x00" // joins the names of a nested setting; no name contains it
	k := koanf.New(nested)
	if err := k.Load(settingsFile(path), settingsParser{}); err != nil {
		return nil, nil, []error{fmt.Errorf("the settings file %s: %s", path, oneLine(err))}
	}
	values = map[string]string{}
	for _, written := range k.Keys() {
		name := strings.ReplaceAll(written, "_", "-")
		_, twice := values[name]
		flat := strings.ReplaceAll(name, nested, "-")
		switch {
		case strings.Contains(written, nested):
			fault := fmt.Sprintf("the settings file %s: there is no setting %q, since settings are not nested", path, strings.ReplaceAll(written, nested, "."))
			if names[flat] {
				fault += "; write " + flat
			}
			faults = append(faults, fmt.Errorf("%s", fault))
		case !names[name]:
			faults = append(faults, fmt.Errorf("the settings file %s: there is no setting %q%s; see --help for those there are", path, written, didYouMean("", name, slices.Sorted(maps.Keys(names)))))
		case twice:
			faults = append(faults, fmt.Errorf("the settings file %s: %s is given twice, with - and with _", path, name))
		case name != written:
			hints = append(hints, fmt.Sprintf("the settings file %s: %s is accepted; it is written %s", path, written, name))
			fallthrough
		default:
			values[name] = settingText(k.Get(written))
		}
	}
	return values, hints, faults
}

// otherVariables are those of the commands and of the packages' services. One environment file
// may contain them together with the settings.
var otherVariables = []string{
	"STINT_ADMIN_URL", "STINT_CHECK_URL", "STINT_CHECK_TOKEN", "STINT_CONTEXT",
	"STINT_FOLLOW_LOGS", "STINT_FOLLOW_OPTIONS", "STINT_FIREWALL_OPTIONS",
}

// serviceLink matches the variables that Kubernetes adds for services whose name begins with
// stint.
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_|$)|_PORT(_[0-9]+_|$)`)

// unknownVariables returns a hint for each environment variable that is named like a setting
// but is none. Otherwise a misspelt variable would silently leave the default.
func unknownVariables(environ []string, options []option) []string {
	known := map[string]bool{variableOf("config"): true}
	names := []string{variableOf("config")}
	for _, o := range options {
		names = append(names, o.variable())
		known[o.variable()] = true
		known[o.variable()+"_FILE"] = o.readsFile()
	}
	var hints []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "STINT_") || known[name] || slices.Contains(otherVariables, name) || serviceLink.MatchString(name) {
			continue
		}
		hint := fmt.Sprintf("the environment variable %q is not a setting", name) + didYouMean("", name, names)
		hints = append(hints, hint)
	}
	slices.Sort(hints)
	return hints
}

// nearest returns the names that were probably meant by a misspelt one: the same letters with other
// separators or another ending, one or two letters wrong, or the beginning of at most three.
func nearest(written string, names []string) []string {
	plain := func(name string) string {
		return strings.NewReplacer("-", "", "_", "", "ies", "y").Replace(strings.ToLower(name))
	}
	wrong := plain(written)
	best, fewest := "", 3
	var begun []string
	for _, name := range names {
		right := plain(name)
		if edits := editsBetween(wrong, right); edits < fewest && edits*3 <= len(right) {
			best, fewest = name, edits
		}
		if strings.HasPrefix(right, wrong) {
			begun = append(begun, name)
		}
	}
	switch {
	case best != "":
		return []string{best}
	case len(begun) <= 3:
		return begun
	}
	return nil
}

// editsBetween returns how many letters must be added, removed, changed or swapped with the next
// to make one text of the other (the distance of Damerau and Levenshtein).
func editsBetween(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			differs := 0
			if a[i-1] != b[j-1] {
				differs = 1
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+differs)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

func configPath(flags *pflag.FlagSet, variables map[string]string) string {
	if path, _ := flags.GetString("config"); path != "" {
		return path
	}
	return variables["STINT_CONFIG"]
}

// oneLine returns an error's text without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
