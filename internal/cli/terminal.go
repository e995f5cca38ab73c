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

// width returns the width of tables in columns: COLUMNS if set, else the terminal's, or
// 0 (unlimited) if the output is not a terminal.
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

// notef prints a note to standard error.
func (a *app) notef(format string, args ...any) {
	fmt.Fprintf(a.sys.Stderr, format+"\n", args...)
}

// warn prints the server's warnings.
func (a *app) warn(warnings []string) {
	for _, w := range warnings {
		a.notef("Warning: %s", output.Escape(w))
	}
}

// confirm asks a yes/no question on a terminal. Elsewhere it fails and names the flag
// that confirms.
func (a *app) confirm(question, flag string) error {
	if !a.interactive() {
		return &exitError{Unconfirmed, fmt.Errorf("%s Repeat the command with %s to confirm", question, flag)}
	}
	a.ask(question + " Continue? [y/N] ")
	answer, err := readLine(a.sys.Stdin)
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		a.ask("\n")
	}
	return errors.New("nothing was changed")
}

// interactive reports whether standard input is a terminal.
func (a *app) interactive() bool { return term.IsTerminal(int(a.sys.Stdin.Fd())) }

// ask writes to the terminal, even if the output is redirected.
func (a *app) ask(question string) {
	terminal, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprint(a.sys.Stderr, question)
		return
	}
	defer terminal.Close()
	fmt.Fprint(terminal, question)
}

// secret reads a secret from the terminal without echo, or the first line of standard
// input.
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
