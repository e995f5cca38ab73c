package operations

import "github.com/stint-dev/stint/internal/crawlers"

// Crawlers is the use case of showing the verified crawlers. Each node verifies crawlers whose
// misses are reported to it, and shares the results. The zero value has none.
type Crawlers struct{ Verifier *crawlers.Verifier }

// Crawler is a verified address.
type Crawler = crawlers.Crawler

// CrawlerOperator is an operator whose crawlers are recognized.
type CrawlerOperator = crawlers.Operator

// Operators returns the operators in the setting.
func (c *Crawlers) Operators() []CrawlerOperator { return c.Verifier.Operators() }

// List returns the addresses that any node has verified, by operator and address.
func (c *Crawlers) List() []Crawler { return c.Verifier.Verified() }
