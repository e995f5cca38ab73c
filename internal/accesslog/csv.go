package accesslog

import (
	"bytes"
	"cmp"
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
	delimiter rune
	width     int
	time      int
	// key, forwarded and cost are -1 where there is none.
	key, forwarded, cost int
	keys                 *clientKeys
	// request are the columns of requestNames, status that of the status and line that of the
	// request line; -1 where there is none.
	request      [len(requestNames)]int
	status, line int
	texts        textCache
	columns      Columns
	feed         feed
	in           *csv.Reader
}

func newCSVParser(header []byte, o Options) (*csvParser, error) {
	p := &csvParser{delimiter: delimiterOf(header)}
	names, err := splitHeader(header, p.delimiter)
	if err != nil {
		return nil, fmt.Errorf("the line of column names: %w", err)
	}
	p.width = len(names)
	if p.time, err = mustColumn(names, "time", o.Time, timeNames); err != nil {
		return nil, err
	}
	p.key, p.forwarded = column(names, o.Key, addressNames), -1
	isList := isForwardedList(o.Key)
	switch {
	case isList:
		p.forwarded, p.key = p.key, column(names, "", addressNames)
	case len(o.Proxies) > 0 && o.Key == "":
		p.forwarded = column(names, "", forwardedNames)
	}
	if isList && p.forwarded < 0 || !isList && p.key < 0 {
		_, err = mustColumn(names, "key", o.Key, addressNames)
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
	p.status, p.line = column(names, "", statusNames), column(names, "", lineNames)
	if o.Cost != "" && p.cost < 0 {
		_, err = mustColumn(names, "cost", o.Cost, costNames)
		return nil, err
	}
	keyColumn, list := p.key, ""
	if p.forwarded >= 0 {
		list = strings.TrimSpace(names[p.forwarded])
	}
	if isList {
		keyColumn = p.forwarded
	}
	kind, err := o.kindOf(strings.TrimSpace(names[keyColumn]))
	if err != nil {
		return nil, err
	}
	p.keys = newClientKeys(&o, kind, list, isList)
	p.columns = p.findColumns(names, keyColumn)
	p.restart()
	return p, nil
}

// findColumns says what the columns hold.
func (p *csvParser) findColumns(names []string, key int) Columns {
	name := func(at int) string {
		if at < 0 {
			return ""
		}
		return strings.TrimSpace(names[at])
	}
	c := Columns{Time: name(p.time), Client: name(key), Status: name(p.status)}
	c.Path, c.Method = cmp.Or(name(p.request[0]), name(p.line)), cmp.Or(name(p.request[1]), name(p.line))
	c.Agent, c.Host, c.Account = name(p.request[2]), name(p.request[3]), name(p.request[4])
	if p.forwarded >= 0 && key != p.forwarded {
		c.Client += ", behind trusted proxies " + name(p.forwarded)
	}
	return c
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
		return 0, fmt.Errorf("the CSV has no column for the %s that is called %s; name one with --%s-column; its columns are %s",
			what, strings.Join(wellKnown[:3], ", "), what, clip(strconv.Quote(strings.Join(names, ", "))))
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
	if len(values) != p.width {
		return Record{}, fmt.Errorf("it has %d values where the header has %d names", len(values), p.width)
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
	valueOf := func(at int) []byte {
		if at < 0 {
			return nil
		}
		return []byte(strings.TrimSpace(values[at]))
	}
	key, err := p.keys.key(valueOf(p.key), valueOf(p.forwarded))
	if err != nil {
		return Record{}, err
	}
	r := Record{Time: ms, Key: key, Cost: cost}
	for i, into := range r.texts() {
		if at := p.request[i]; at >= 0 {
			*into = p.texts.ofPart(i, []byte(values[at]))
		}
	}
	if p.line >= 0 {
		method, target := requestLine([]byte(values[p.line]))
		if r.Method == "" {
			r.Method = p.texts.of(method)
		}
		if r.Path == "" {
			r.Path = p.texts.ofPath(target)
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
