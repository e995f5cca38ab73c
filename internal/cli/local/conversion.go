package local

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/wire"
)

// conversion is the policies that are made of the configuration of another program, with comments
// that say what of it has no equal.
type conversion struct {
	comments bytes.Buffer
	policies []wire.PolicyRequest
	names    map[string]int
	// exemptions is how many exemptions the comments name.
	exemptions int
}

// note adds a line of comment.
func (c *conversion) note(format string, args ...any) {
	fmt.Fprintf(&c.comments, "# %s\n", strings.TrimSpace(output.Escape(fmt.Sprintf(format, args...))))
}

// lacks says what of where has no equal, and why.
func (c *conversion) lacks(where, format string, args ...any) {
	c.note("%s has no equal: %s", where, fmt.Sprintf(format, args...))
}

// add adds a policy under a name that no other has, unless it is not valid.
func (c *conversion) add(where string, p wire.PolicyRequest) {
	p.Name = c.nameOf(p.Name)
	if _, err := policyfile.Policy(p); err != nil {
		c.lacks(where, "no policy can be made of it: %v", err)
		return
	}
	c.policies = append(c.policies, p)
}

// maxName is the longest name of a policy that is made here.
const maxName = 50

// nameOf makes a name of a policy of a text.
func (c *conversion) nameOf(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	if name = strings.Trim(name[:min(len(name), maxName)], "-"); name == "" {
		name = "imported"
	}
	if c.names == nil {
		c.names = map[string]int{}
	}
	if c.names[name]++; c.names[name] > 1 {
		return fmt.Sprintf("%s-%d", name, c.names[name])
	}
	return name
}

// write writes the comments and the policies as a policy file.
func (c *conversion) write(to io.Writer) error {
	var file bytes.Buffer
	if err := policyfile.Write(&file, c.policies); err != nil {
		return err
	}
	_, err := to.Write(append(c.comments.Bytes(), file.Bytes()...))
	return err
}
