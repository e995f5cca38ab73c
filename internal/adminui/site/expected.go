package site

import (
	"net/url"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
)

// Expected returns the state that the page of a form showed, from the hidden field expect;
// etag.New for a form of a new object.
func Expected(values url.Values) (etag.Tag, error) {
	tag, err := etag.Parse("expect", values.Get("expect"))
	if err != nil || tag == etag.Any {
		return etag.New, fault.Field("expect", "must be what the page showed")
	}
	return tag, nil
}
