package app

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/buildinfo"
)

// ErrHelp is returned by Load when the usage or the version was requested and
// printed.
var ErrHelp = pflag.ErrHelp

// Load reads the settings and validates them. Each setting comes from its flag, or
// else its environment variable, or else the file named by --config, or else its
// default. Errors are one line each.
func Load(args, environ []string) (Settings, error) {
	var s Settings
	options := s.options()
	flags := newFlags(options)
	if err := flags.Parse(args); err != nil {
		return Settings{}, err
	}
	if version, _ := flags.GetBool("version"); version {
		fmt.Fprintln(os.Stdout, buildinfo.Read())
		return Settings{}, ErrHelp
	}
	if flags.NArg() > 0 {
		return Settings{}, fmt.Errorf("%q is not a setting; settings are flags such as --listen, see --help", flags.Arg(0))
	}
	values, err := readValues(options, flags, environ)
	if err != nil {
		return Settings{}, err
	}
	for _, o := range options {
		if err := o.value.set(values[o.name]); err != nil {
			return Settings{}, fmt.Errorf("%s: %w", o.label(), err)
		}
	}
	s.Proposals.MinNetworks = s.Proposals.MinAddresses
	s.Notify.Pages = strings.TrimRight(s.Notify.Pages, "/")
	if s.NodeName == "" {
		s.NodeName, _ = os.Hostname()
	}
	return s, s.validate()
}

func newFlags(options []option) *pflag.FlagSet {
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags.SortFlags = false
	var secrets []string
	for _, o := range options {
		if o.secret {
			secrets = append(secrets, o.variable())
			continue
		}
		flags.String(o.name, o.preset, o.help+" ("+o.variable()+")")
	}
	flags.String("config", "", "a YAML file of settings (STINT_CONFIG)")
	flags.Bool("version", false, "print the version")
	flags.Usage = func() {
		fmt.Fprintf(os.Stdout, "Stint answers whether a key may do one more request, and keeps abusers out.\n\nUsage: server [flags]\n\nWith no flags it runs on this machine alone: logs in memory, SQLite in ./data.\n\n%s\nA flag wins over its environment variable, which wins over the file.\nFrom the environment or the file only: %s.\n", flags.FlagUsages(), strings.Join(secrets, ", "))
	}
	return flags
}

// readValues returns the text of each option by name: of the flag, or else the
// environment, or else the file, or else the default.
func readValues(options []option, flags *pflag.FlagSet, environ []string) (map[string]string, error) {
	names := map[string]string{"STINT_CONFIG": "config"}
	for _, o := range options {
		names[o.variable()] = o.name
	}
	k := koanf.New("\x00") // names have no parts
	environment := env.Provider("\x00", env.Opt{
		Prefix:        "STINT_",
		EnvironFunc:   func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) { return names[name], value },
	})
	if path := configPath(flags, environ); path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return nil, fmt.Errorf("the settings file %s: %s", path, oneLine(err))
		}
		for _, name := range k.Keys() {
			if !slices.ContainsFunc(options, func(o option) bool { return o.name == name }) {
				return nil, fmt.Errorf("the settings file %s: there is no setting %q; see --help for those there are", path, name)
			}
		}
	}
	if err := k.Load(environment, nil); err != nil {
		return nil, err
	}
	if err := k.Load(posflag.Provider(flags, "\x00", k), nil); err != nil {
		return nil, err
	}
	values := make(map[string]string, len(options))
	for _, o := range options {
		values[o.name] = strings.TrimSpace(k.String(o.name))
		if values[o.name] == "" {
			values[o.name] = o.preset
		}
	}
	return values, nil
}

func configPath(flags *pflag.FlagSet, environ []string) string {
	if path, _ := flags.GetString("config"); path != "" {
		return path
	}
	for _, pair := range environ {
		if path, found := strings.CutPrefix(pair, "STINT_CONFIG="); found {
			return path
		}
	}
	return ""
}

// oneLine returns an error's text without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
