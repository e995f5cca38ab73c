package policies

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/rules"
)

func textOf(p *rules.Policy) (string, error) {
	text, err := json.Marshal(p.Stored())
	return string(text), err
}

// parse reads the content of a version's row into p.
func (p *Stored) parse(text string) error {
	read, err := rules.ReadStored([]byte(text))
	if err == nil && read == nil {
		err = errors.New("it has no document")
	}
	if err != nil {
		return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
	}
	read.ID, read.Version, read.Generation, read.Revision = p.ID, p.Version, p.Generation, p.Revision
	read.Created, read.Updated, read.UpdatedBy = p.Created, p.Updated, p.UpdatedBy
	*p.Policy = *read
	return nil
}
