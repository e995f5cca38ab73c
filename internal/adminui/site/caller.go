package site

import (
	"errors"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// CallerOf returns the caller of a request in the form of the use cases.
func CallerOf(c *httpserver.Call) admin.Caller {
	return admin.Caller{Actor: c.Actor(), Address: c.Address, Access: c.Access()}
}

// NeededConfirmation returns the text that confirms a change and the reason why it needs a
// confirmation. asks is false for any other error.
func NeededConfirmation(err error) (text, reason string, asks bool) {
	var invalid *fault.Error
	if !errors.As(err, &invalid) || invalid.Code != fault.NeedConfirm {
		return "", "", false
	}
	text, _ = invalid.Detail["confirm"].(string)
	reason, _ = invalid.Detail["confirm_reason"].(string)
	return text, reason, true
}
