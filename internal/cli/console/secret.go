package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// NewPassword reads a new password, twice on a terminal.
func (c *Console) NewPassword() (string, error) {
	password, err := c.Secret("Password")
	if err != nil || !c.Interactive() {
		return password, err
	}
	again, err := c.Secret("Repeat the password")
	if err == nil && again != password {
		err = Usagef("the two passwords differ; nothing was changed")
	}
	return password, err
}

// Secret reads a secret that already exists, for example a URL with a token: from the terminal
// without echo, or the next line of standard input.
func (c *Console) Secret(prompt string) (string, error) {
	if !c.Interactive() {
		return readLine(c)
	}
	c.ask(prompt + ": ")
	terminal := int(c.Stdin.Fd())
	before, err := term.GetState(terminal)
	if err != nil {
		return "", err
	}
	text, err := await(c, func() ([]byte, error) { return term.ReadPassword(terminal) })
	if errors.Is(err, context.Canceled) {
		err = errors.Join(err, term.Restore(terminal, before)) // ReadPassword has hidden what is typed
	}
	c.ask("\n")
	return string(text), err
}

// PrintToken prints a new token: only the secret to standard output, so that it can be
// redirected to a file, and the rest to standard error.
func (c *Console) PrintToken(t *wire.CreatedToken) error {
	if err := cmp.Or(printToken(c, t), c.Out().Err()); err != nil {
		return fmt.Errorf("the token %s was added, but its secret is lost; delete the token: %w", t.Name, err)
	}
	return nil
}

func printToken(c *Console, t *wire.CreatedToken) error {
	p := c.Printer()
	c.Warn(t.Warnings)
	if p.Format == output.JSON {
		return p.JSON(t)
	}
	expires := "never"
	if !t.ExpiresAt.IsZero() {
		expires = output.When(t.ExpiresAt.Time, p.Now)
	}
	scopes := "scope"
	if len(t.Scopes) > 1 {
		scopes = "scopes"
	}
	c.Notef("The token %s has the %s %s and expires: %s.", output.Escape(t.Name), scopes, output.Escape(joinAnd(t.Scopes)), expires)
	if t.Replaces != nil {
		c.Notef("The old secret (%s…) %s.", output.Escape(t.Replaces.Hint), oldSecret(t.Replaces, p.Now))
	}
	c.Notef("Save its secret now; it is not shown again:")
	if p.Format == output.CSV {
		return output.One(p, t, []output.Column[*wire.CreatedToken]{
			{Name: "id", Cell: func(t *wire.CreatedToken) output.Cell { return output.Text(t.ID) }},
			{Name: "name", Cell: func(t *wire.CreatedToken) output.Cell { return output.Text(t.Name) }},
			{Name: "secret", Cell: func(t *wire.CreatedToken) output.Cell { return output.Text(t.Secret) }},
		})
	}
	p.Sayf("%s", output.Escape(t.Secret))
	return nil
}

func oldSecret(t *wire.Token, now time.Time) string {
	if !t.Active {
		return "no longer works"
	}
	return "works until " + output.When(t.ExpiresAt.Time, now)
}

// joinAnd formats a list in words: "a, b and c".
func joinAnd(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// maxLine is the maximum length of a line of standard input, in bytes.
const maxLine = 4 << 10

// readLine reads a line of standard input.
func readLine(c *Console) (string, error) {
	return await(c, func() (string, error) { return lineOf(c.Stdin) })
}

// lineOf reads a line byte by byte, so that the rest of the input stays unread.
func lineOf(in io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxLine {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' {
			break
		}
		line = append(line, one[:n]...)
		if err != nil && len(line) == 0 && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("reading standard input: %w", err)
		}
		if err != nil {
			break
		}
	}
	if text := strings.TrimRight(string(line), "\r"); text != "" {
		return text, nil
	}
	return "", Usagef("the first line of standard input is empty")
}
