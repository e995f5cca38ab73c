package sqlstore

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

const addEntry = `
INSERT INTO audit (at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, before, after, revision)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// record writes the audit entry of a change into its transaction. before and
// after are snapshots that marshal to what an operator may read, never a
// secret or its hash; nil where the thing did not exist.
func (t *tx) record(action, object, objectID, summary string, before, after any) error {
	beforeJSON, err := snapshot(before)
	if err != nil {
		return err
	}
	afterJSON, err := snapshot(after)
	if err != nil {
		return err
	}
	_, err = t.exec(addEntry, toMS(t.now), t.by.Kind, t.by.ID, t.by.Name, t.by.Address,
		action, object, objectID, summary, beforeJSON, afterJSON, t.revision)
	return err
}

func snapshot(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write a snapshot for the audit: %w", err)
	}
	return string(text), nil
}
