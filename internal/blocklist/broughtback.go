package blocklist

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/keys"
)

// BroughtBack returns the pattern of the block or exemption that undoing e makes
// stand again or last longer, zero where it does neither. It needs nothing but
// the entry: what has changed since is never undone.
func BroughtBack(e *audit.Record) (keys.Pattern, error) {
	object, action, _ := strings.Cut(e.Action, ".")
	if object != "block" && object != "exemption" {
		return keys.Pattern{}, nil
	}
	switch action {
	case "end", "replace", "extend", "update":
	default:
		return keys.Pattern{}, nil
	}
	var before, after struct {
		Pattern string    `json:"pattern"`
		Expires time.Time `json:"expires_at"` // zero: for good
	}
	if err := json.Unmarshal(e.Before, &before); err != nil {
		return keys.Pattern{}, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	if action == "extend" || action == "update" {
		if err := json.Unmarshal(e.After, &after); err != nil {
			return keys.Pattern{}, fmt.Errorf("audit entry %d: %w", e.ID, err)
		}
		if !Prolongs(after.Expires, before.Expires) {
			return keys.Pattern{}, nil
		}
	}
	p, err := keys.Parser{}.Pattern(before.Pattern)
	if err != nil {
		return keys.Pattern{}, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	return p, nil
}
