package accesslog

import (
	"cmp"
	"errors"
	"time"

	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/fail2ban"
)

// filter makes p a parser of the lines in which Options.Filter finds failures.
func (p *LineParser) filter(o Options) {
	var texts textCache
	outcome := cmp.Or(o.FilterOutcome, fail2ban.OutcomeName(o.Filter.Name))
	p.title = "lines of the filter " + clip(o.Filter.Name)
	p.columns = Columns{Time: "the date", Client: "the address of a failure", Account: "the user of a failure", Status: "the filter"}
	p.parse = func(line []byte) (Record, error) {
		now := time.Now()
		failure, err := o.Filter.Parse(string(line), now)
		switch {
		case errors.Is(err, fail2ban.ErrNoFailure):
			return Record{}, ErrSkipped
		case err != nil:
			return Record{}, err
		case failure.At.IsZero():
			failure.At = now
		}
		ms, err := inRange(failure.At.UnixMilli())
		if err != nil {
			return Record{}, err
		}
		return Record{Time: ms, Key: o.Keys.AddressKey(failure.Address), Cost: 1, Account: texts.of([]byte(failure.User)), Outcome: outcome, IsLogin: failure.IsLogin && o.FilterOutcome == "" && outcome != answers.LoginFailed}, nil
	}
}
