package catalog

import (
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// A saved profile is its key, its plan and its limit: the number of the limit's rules, 0 for no
// limit, then the rules, the reason, the author, and the times of creation and expiry.

func (e *savedWriter) profile(p *profiles.Profile) {
	e.text(p.Key)
	e.text(p.Plan)
	if p.Limit == nil {
		e.number(0)
		return
	}
	e.number(int64(len(p.Limit.Rules)))
	for _, rule := range p.Limit.Rules.Strings() {
		e.text(rule)
	}
	e.text(p.Limit.Reason)
	e.text(p.Limit.Author)
	e.time(p.Limit.Created)
	e.time(p.Limit.Expires)
}

func (d *savedReader) profile() *profiles.Profile {
	p := &profiles.Profile{Key: d.text(), Plan: d.text()}
	texts := readList(d, d.text)
	if len(texts) == 0 || d.err != nil {
		return p
	}
	stack, err := rules.ParseStack(texts)
	if err != nil {
		d.fail("it is damaged: a limit that cannot be read")
	}
	p.Limit = &profiles.Limit{Rules: stack, Reason: d.text(), Author: d.text(), Created: d.time(), Expires: d.time()}
	return p
}
