package console

import (
	"cmp"
	"fmt"
)

// Stdout is standard output. It is not safe for concurrent use.
type Stdout struct {
	console *Console
	err     error
}

// Out returns standard output.
func (c *Console) Out() *Stdout {
	c.out.console = c
	return &c.out
}

// Write writes text.
func (s *Stdout) Write(text []byte) (int, error) {
	n, err := s.console.Stdout.Write(text)
	if err != nil {
		err = fmt.Errorf("the output is incomplete: %w; before a change is repeated, look whether it was made", err)
		s.err = cmp.Or(s.err, err)
	}
	return n, err
}

// Err returns the first error of writing, for those who cannot look at each.
func (s *Stdout) Err() error { return s.err }
