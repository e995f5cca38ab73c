package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/stint-dev/stint/internal/cli/output"
)

// Printer returns the printer of answers to standard output.
func (c *Console) Printer() *output.Printer {
	format, isYAML := output.Format(c.Format), false
	if format == output.YAML {
		format, isYAML = output.JSON, true
	}
	return &output.Printer{
		Out: c.Out(), Format: format, YAML: isYAML, Width: c.Width(),
		Terminal: term.IsTerminal(int(c.Stdout.Fd())), Now: c.Now(),
	}
}

// Width returns the width of tables in columns: COLUMNS if set, else the terminal's, or
// 0 (unlimited) if the output is not a terminal.
func (c *Console) Width() int {
	if columns, err := strconv.Atoi(c.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	columns, _, err := term.GetSize(int(c.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Notef prints a note to standard error.
func (c *Console) Notef(format string, args ...any) {
	fmt.Fprintf(c.Stderr, format+"\n", args...)
}

// Warn prints the server's warnings.
func (c *Console) Warn(warnings []string) {
	for _, w := range warnings {
		c.Notef("Warning: %s", output.Escape(w))
	}
}

// Confirm asks a yes/no question on a terminal. Without a terminal it returns an error that
// names the flag for confirming.
func (c *Console) Confirm(question, flag string) error {
	if !c.Interactive() {
		return &ExitError{Unconfirmed, fmt.Errorf("%s Repeat the command with %s to confirm", question, flag)}
	}
	c.ask(question + " Continue? [y/N] ")
	answer, err := readLine(c)
	if errors.Is(err, context.Canceled) {
		c.ask("\n")
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		c.ask("\n")
	}
	return errors.New("nothing was changed")
}

// Interactive reports whether standard input is a terminal.
func (c *Console) Interactive() bool { return term.IsTerminal(int(c.Stdin.Fd())) }

// ask writes to the terminal, even if the output is redirected.
func (c *Console) ask(question string) {
	terminal, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprint(c.Stderr, question)
		return
	}
	defer terminal.Close()
	fmt.Fprint(terminal, question)
}
