package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/api/openapi"
)

var (
	limitParam  = openapi.Param{Name: "limit", Doc: "How many items a page holds, 1 to 1000; 100 where it is left out.", Integer: true}
	cursorParam = openapi.Param{Name: "cursor", Doc: "The next_cursor of the page before."}
	keyParams   = []openapi.Param{
		{Name: "key", Doc: "The key, for example ip:203.0.113.7.", Required: true},
		{Name: "policy", Doc: "The policy to ask by name instead of the key's own."},
	}
	reasonParam    = []openapi.Param{{Name: "reason", Doc: "Why, where the body does not say it."}}
	timeRangeQuery = []openapi.Param{
		{Name: "last", Doc: "The span that ends now, for example 15m, 24h or 7d; 1h where no span is named."},
		{Name: "from", Doc: "RFC 3339; the span begins here."},
		{Name: "to", Doc: "RFC 3339; the span ends before this; now where it is left out."},
	}
	policyParam = openapi.Param{Name: "policy", Doc: "Only under the policy of this name."}
)

// The headers of answers.
var (
	location = []openapi.Header{openapi.Location}
	file     = []openapi.Header{openapi.Disposition}
)

func ok(doc string, body any) []openapi.Answer {
	return []openapi.Answer{{Status: http.StatusOK, Doc: doc, Body: body}}
}
