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

	"github.com/stint-dev/stint/internal/algorithms"
)

var (
	errEmptyTime = errors.New("the time is empty")
	errCost      = fmt.Errorf("the cost is not a whole number from 1 to %d", algorithms.MaxAmount)
)

// rowParser reads lines of columns that were named before, as in CSV.
type rowParser struct {
	width int
	// split splits a line into its values.
	split func(line []byte) ([]string, error)
	// agent, if not nil, returns an agent as it was sent.
	agent func(string) string
	time  int
	// date, query, key, forwarded and cost are -1 where there is none. A date and a query are
	// columns of their own in W3C Extended Log Format.
	date, query, key, forwarded, cost int
	keys                              *clientKeys
	// request are the columns of requestNames, status is the column of the status and line that of the
	// request line; -1 where there is none.
	request      [len(requestNames)]int
	status, line int
	texts        textCache
	clock        clock
	columns      Columns
}

func newRowParser(names []string, o Options) (*rowParser, error) {
	p := &rowParser{width: len(names), date: -1, query: -1, clock: clock{zone: o.Zone}}
	var err error
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
	return p, nil
}

// newCSVParser returns the parser of the lines below a header.
func newCSVParser(header []byte, o Options) (*rowParser, error) {
	lines := &csvLines{delimiter: delimiterOf(header)}
	names, err := splitHeader(header, lines.delimiter)
	if err != nil {
		return nil, fmt.Errorf("the line of column names: %w", err)
	}
	p, err := newRowParser(names, o)
	if err != nil {
		return nil, err
	}
	lines.restart()
	p.split = lines.split
	return p, nil
}

// csvLines splits the lines of CSV. A quoted value may not go over the end of a line: access
// logs have no such values, and it keeps one stray quote from swallowing the rest of the log.
type csvLines struct {
	delimiter rune
	feed      feed
	in        *csv.Reader
}

// restart drops what the csv reader has not consumed after a bad line.
func (l *csvLines) restart() {
	l.feed.rest = nil
	l.in = csv.NewReader(&l.feed)
	l.in.Comma = l.delimiter
	l.in.ReuseRecord = true
	l.in.FieldsPerRecord = -1
}

func (l *csvLines) split(line []byte) ([]string, error) {
	l.feed.rest, l.feed.ended = line, false
	values, err := l.in.Read()
	if err != nil {
		l.restart()
		return nil, csvProblem(err)
	}
	return values, nil
}

// findColumns says what the columns hold.
func (p *rowParser) findColumns(names []string, key int) Columns {
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
		return 0, fmt.Errorf("there is no column %q for the %s; the columns are %s", clip(name), what, clip(strconv.Quote(strings.Join(names, ", "))))
	default:
		return 0, fmt.Errorf("there is no column for the %s that is called %s; name one with --%s-column; the columns are %s",
			what, strings.Join(wellKnown[:3], ", "), what, clip(strconv.Quote(strings.Join(names, ", "))))
	}
}

func (p *rowParser) parse(line []byte) (Record, error) {
	values, err := p.split(line)
	switch {
	case err != nil:
		return Record{}, err
	case len(values) != p.width:
		return Record{}, fmt.Errorf("it has %d values where the header has %d names", len(values), p.width)
	}
	return p.record(values)
}

func (p *rowParser) record(values []string) (Record, error) {
	at := strings.TrimSpace(values[p.time])
	if at == "" {
		return Record{}, errEmptyTime
	}
	if p.date >= 0 {
		at = values[p.date] + " " + at
	}
	ms, err := p.clock.parse(at)
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
			text := values[at]
			switch {
			case text == "-":
				continue
			case i == 0 && p.query >= 0 && values[p.query] != "-" && values[p.query] != "":
				text += "?" + values[p.query]
			case i == forAgent-forPath && p.agent != nil:
				text = p.agent(text)
			}
			*into = p.texts.ofPart(i, []byte(text))
		}
	}
	if p.line >= 0 {
		method, target := requestLine([]byte(values[p.line]))
		r.IsNoRequest = isNoRequest([]byte(values[p.line]))
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
	if err != nil || cost < 1 || cost > algorithms.MaxAmount {
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
