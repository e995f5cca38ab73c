package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/manual"
)

func init() { addCommands(more, newMan) }

// manSection is the section of the manual for the commands of all users.
const manSection = 1

func newMan(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages of all commands into a folder",
		Long: `Write a manual page of each command into a folder. The packages for Debian and Red Hat install
them already.`,
		Example: "admin man ~/.local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			n, err := writePages(c.Root(), args[0])
			if err == nil {
				fmt.Fprintf(con.Out(), "Wrote %d manual pages.\n", n)
			}
			return err
		},
	}
}

// writePages writes the pages of a command and of those below it, and returns how many there are.
func writePages(c *cobra.Command, folder string) (n int, err error) {
	if c.IsAvailableCommand() || !c.HasParent() {
		var page strings.Builder
		if err := pageOf(c).Write(&page, buildinfo.Read()); err != nil {
			return 0, err
		}
		n++
		if err := os.WriteFile(filepath.Join(folder, pageName(c)+fmt.Sprintf(".%d", manSection)), []byte(page.String()), 0o644); err != nil {
			return 0, err
		}
	}
	for _, sub := range c.Commands() {
		below, err := writePages(sub, folder)
		if err != nil {
			return 0, err
		}
		n += below
	}
	return n, nil
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// pageOf returns the manual page of a command: its help.
func pageOf(c *cobra.Command) manual.Page {
	pageNamed := func(c *cobra.Command) string { return fmt.Sprintf("%s(%d)", pageName(c), manSection) }
	var below, others []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			below = append(below, pageNamed(sub))
		}
	}
	for parent := c.Parent(); parent != nil; parent = parent.Parent() {
		others = append(others, pageNamed(parent))
	}
	if !c.HasParent() {
		others = append(others, "stint-server(8)")
	}
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	own := c.NonInheritedFlags()
	if !c.HasParent() {
		own = c.PersistentFlags()
	}
	flags := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	own.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			flags.AddFlag(f)
		}
	})
	return manual.Page{Name: pageName(c), Section: manSection, Short: c.Short, Sections: []manual.Section{
		{Head: "Synopsis", Lines: c.UseLine()},
		{Head: "Description", Text: text},
		{Head: "Options", Flags: flags},
		{Head: "Options of all commands", Flags: c.InheritedFlags()},
		{Head: "Commands", Pages: below},
		{Head: "Examples", Lines: c.Example},
		{Head: "See also", Pages: others},
	}}
}
