package operations

import (
	"context"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/wire"
)

// Crawlers is the use case of showing the verified crawlers. Each node verifies crawlers whose
// misses are reported to it, and shares the results. The zero value has none.
type Crawlers struct{ Verifier *bots.Verifier }

// CrawlerOperator is an operator whose crawlers are recognized.
type CrawlerOperator = bots.Operator

// Operators returns the operators in the setting.
func (c *Crawlers) Operators() []CrawlerOperator { return c.Verifier.Operators() }

// List returns the addresses that any node has verified, by operator and address.
func (c *Crawlers) List(context.Context, admin.Caller, wire.None) (wire.Page[wire.Crawler], error) {
	return wire.WholePage(c.Verifier.Verified(), func(k bots.Crawler) wire.Crawler {
		return wire.Crawler{Address: k.Address.String(), Operator: k.Operator, Name: k.Name, VerifiedAt: wire.At(k.Verified)}
	}), nil
}
