package cli

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/stint-dev/stint/internal/cli/output"
)

// printer returns the printer of answers to standard output.
func (a *app) printer() *output.Printer {
	return &output.Printer{
		Out: a.sys.Stdout, Format: output.Format(a.output), Width: a.width(),
		Terminal: term.IsTerminal(int(a.sys.Stdout.Fd())), Now: a.sys.Now(),
	}
}

// width returns the number of columns that tables must fit into: COLUMNS where
// it is set, that of the terminal, or 0 where the output goes elsewhere.
func (a *app) width() int {
	if columns, err := strconv.Atoi(a.sys.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	columns, _, err := term.GetSize(int(a.sys.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// notef tells people something beside the answer, on standard error.
func (a *app) notef(format string, args ...any) {
	fmt.Fprintf(a.sys.Stderr, format+"\n", args...)
}

// warn prints what the server warns of.
func (a *app) warn(warnings []string) {
	for _, w := range warnings {
		a.notef("Warning: %s", output.Escape(w))
	}
}

// confirm asks a question that is answered by yes on a terminal. Elsewhere
// nobody is there to ask, so flag must have been given.
func (a *app) confirm(question, flag string) error {
	if !a.interactive() {
		return usagef("%s Repeat the command with %s to do it", question, flag)
	}
	fmt.Fprintf(a.sys.Stderr, "%s Do it? [y/N] ", question)
	answer, err := bufio.NewReader(a.sys.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		fmt.Fprintln(a.sys.Stderr)
	}
	return fmt.Errorf("not done")
}

// interactive reports whether a person can be asked.
func (a *app) interactive() bool {
	return term.IsTerminal(int(a.sys.Stdin.Fd())) && term.IsTerminal(int(a.sys.Stderr.Fd()))
}

// secret reads a secret from a person without showing it, or else the first
// line of standard input.
func (a *app) secret(prompt string) (string, error) {
	if !a.interactive() {
		return readLine(a.sys.Stdin)
	}
	fmt.Fprint(a.sys.Stderr, prompt+": ")
	text, err := term.ReadPassword(int(a.sys.Stdin.Fd()))
	fmt.Fprintln(a.sys.Stderr)
	return string(text), err
}

func readLine(in *os.File) (string, error) {
	line, err := bufio.NewReader(in).ReadString('\n')
	if line = strings.TrimRight(line, "\r\n"); line != "" {
		return line, nil
	}
	if err == nil {
		err = fmt.Errorf("the first line is empty")
	}
	return "", fmt.Errorf("reading standard input: %w", err)
}
