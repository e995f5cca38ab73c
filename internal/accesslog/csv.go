package accesslog

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/timestamplog"
)

var (
	errEmptyTime = errors.New("the time is empty")
	errCost      = fmt.Errorf("the cost is not a whole number from 1 to %d", timestamplog.MaxCost)
)

// csvParser reads lines below a header. A quoted value may not go over the end
// of a line: access logs have no such values, and it keeps one stray quote
// from swallowing the rest of the log.
type csvParser struct {
	delimiter       rune
	columns         int
	time, key, cost int // cost is -1 where there is none
	keys            *keyCache
	// request are the columns of requestNames and status that of the status; -1 where there
	// is none.
	request [len(requestNames)]int
	status  int
	texts   textCache
	feed    feed
	in      *csv.Reader
}

func newCSVParser(header []byte, o Options) (*csvParser, error) {
	p := &csvParser{delimiter: delimiterOf(header)}
	names, err := splitHeader(header, p.delimiter)
	if err != nil {
		return nil, fmt.Errorf("the line of column names: %w", err)
	}
	p.columns = len(names)
	if p.time, err = mustColumn(names, "time", o.Time, timeNames); err != nil {
		return nil, err
	}
	if p.key, err = mustColumn(names, "key", o.Key, keyNames); err != nil {
		return nil, err
	}
	p.cost = column(names, o.Cost, costNames)
	for i, wellKnown := range requestNames {
		if p.request[i] = column(names, "", wellKnown); p.request[i] == p.key {
			p.request[i] = -1
		}
	}
	if o.Account != "" {
		account, err := mustColumn(names, "account", o.Account, nil)
		if err != nil {
			return nil, err
		}
		p.request[len(p.request)-1] = account
	}
	p.status = column(names, "", statusNames)
	if o.Cost != "" && p.cost < 0 {
		_, err = mustColumn(names, "cost", o.Cost, costNames)
		return nil, err
	}
	kind, err := o.kindOf(strings.TrimSpace(names[p.key]))
	if err != nil {
		return nil, err
	}
	p.keys = newKeyCache(o.Keys, kind)
	p.restart()
	return p, nil
}

func splitHeader(line []byte, delimiter rune) ([]string, error) {
	in := csv.NewReader(bytes.NewReader(line))
	in.Comma = delimiter
	return in.Read()
}

func mustColumn(names []string, what, name string, wellKnown []string) (int, error) {
	at := column(names, name, wellKnown)
	switch {
	case at >= 0:
		return at, nil
	case name != "":
		return 0, fmt.Errorf("the CSV has no column %q for the %s; its columns are %s", clip(name), what, clip(strconv.Quote(strings.Join(names, ", "))))
	default:
		return 0, fmt.Errorf("the CSV has no column for the %s that is called %s; name one; its columns are %s",
			what, strings.Join(wellKnown[:3], ", "), clip(strconv.Quote(strings.Join(names, ", "))))
	}
}

// restart drops what the csv reader has not consumed after a bad line.
func (p *csvParser) restart() {
	p.feed.rest = nil
	p.in = csv.NewReader(&p.feed)
	p.in.Comma = p.delimiter
	p.in.ReuseRecord = true
	p.in.FieldsPerRecord = -1
}

func (p *csvParser) parse(line []byte) (Record, error) {
	p.feed.rest, p.feed.ended = line, false
	values, err := p.in.Read()
	if err != nil {
		p.restart()
		return Record{}, csvProblem(err)
	}
	if len(values) != p.columns {
		return Record{}, fmt.Errorf("it has %d values where the header has %d names", len(values), p.columns)
	}
	return p.record(values)
}

func (p *csvParser) record(values []string) (Record, error) {
	at := strings.TrimSpace(values[p.time])
	if at == "" {
		return Record{}, errEmptyTime
	}
	ms, err := parseTime(at)
	if err != nil {
		return Record{}, err
	}
	cost := 1
	if p.cost >= 0 && values[p.cost] != "" {
		if cost, err = parseCost(values[p.cost]); err != nil {
			return Record{}, err
		}
	}
	key, err := p.keys.key([]byte(strings.TrimSpace(values[p.key])))
	if err != nil {
		return Record{}, err
	}
	r := Record{Time: ms, Key: key, Cost: cost}
	for i, into := range r.texts() {
		if at := p.request[i]; at >= 0 {
			*into = p.texts.ofPart(i, []byte(values[at]))
		}
	}
	if p.status >= 0 {
		r.Status = parseStatus(values[p.status])
	}
	return r, nil
}

// parseStatus returns 0 for what is no status.
func parseStatus(text string) int {
	if status, ok := digits([]byte(text)); ok && len(text) == 3 {
		return status
	}
	return 0
}

func parseCost(text string) (int, error) {
	cost, err := strconv.Atoi(text)
	if err != nil || cost < 1 || cost > timestamplog.MaxCost {
		return 0, errCost
	}
	return cost, nil
}

// csvProblem drops the reader's own line number, which counts from its restart.
func csvProblem(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

// feed hands the csv reader one line, then a line end, then the end.
type feed struct {
	rest  []byte
	ended bool
}

func (f *feed) Read(p []byte) (int, error) {
	switch {
	case len(f.rest) > 0:
		n := copy(p, f.rest)
		f.rest = f.rest[n:]
		return n, nil
	case !f.ended && len(p) > 0:
		f.ended = true
		p[0] = '\n'
		return 1, nil
	default:
		return 0, io.EOF
	}
}
