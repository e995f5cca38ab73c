package cli

import (
	"errors"
	"fmt"
	"io"
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
		return &exitError{Unconfirmed, fmt.Errorf("%s Repeat the command with %s to do it", question, flag)}
	}
	a.ask(question + " Do it? [y/N] ")
	answer, err := readLine(a.sys.Stdin)
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		a.ask("\n")
	}
	return errors.New("nothing was done")
}

// interactive reports whether a person can be asked.
func (a *app) interactive() bool { return term.IsTerminal(int(a.sys.Stdin.Fd())) }

// ask writes to the terminal itself, wherever the output goes.
func (a *app) ask(question string) {
	terminal, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprint(a.sys.Stderr, question)
		return
	}
	defer terminal.Close()
	fmt.Fprint(terminal, question)
}

// secret reads a secret from a person without showing it, or else the first
// line of standard input.
func (a *app) secret(prompt string) (string, error) {
	if !a.interactive() {
		return readLine(a.sys.Stdin)
	}
	a.ask(prompt + ": ")
	text, err := term.ReadPassword(int(a.sys.Stdin.Fd()))
	a.ask("\n")
	return string(text), err
}

// maxLine bounds a line of standard input, in bytes.
const maxLine = 4 << 10

// readLine reads a line byte by byte, so that what follows it stays unread.
func readLine(in io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxLine {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' {
			break
		}
		line = append(line, one[:n]...)
		if err != nil && len(line) == 0 {
			return "", fmt.Errorf("reading standard input: %w", err)
		}
		if err != nil {
			break
		}
	}
	if text := strings.TrimRight(string(line), "\r"); text != "" {
		return text, nil
	}
	return "", usagef("the first line of standard input is empty")
}
