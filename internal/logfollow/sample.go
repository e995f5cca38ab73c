package logfollow

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/proxies"
)

const (
	// minSample is how many lines show whether a proxy is in front.
	minSample = 100
	// maxSample is how many lines are looked at, the last ones.
	maxSample = 5000
	// sampleSize is how much of a file is looked at, in bytes.
	sampleSize = 1 << 20
)

// sample counts from where the requests of a log come. The zero value is ready.
type sample struct {
	lines, bad, private, edges int
	cdn                        string // of the last edge
	byClient                   map[string]int
}

func (s *sample) add(r *accesslog.Record) {
	s.lines++
	if network, ok := r.Key.Network(); ok {
		switch name := proxies.CDN(network.Addr()); {
		case name != "":
			s.edges++
			s.cdn = name
		case keys.IsInternal(network.Addr()):
			s.private++
		}
	}
	if s.byClient == nil {
		s.byClient = map[string]int{}
	}
	s.byClient[r.Key.String()]++
}

// ProxyError says that the clients of a log may be a proxy. Run returns it for a log without
// a saved position only, and otherwise logs it.
type ProxyError struct {
	Path   string
	Client string // or "private addresses", or "edges of Cloudflare"
	Lines  int    // of it
	Of     int    // lines
	Field  string // that the client's address was read from, "" where it has several names
}

// Error says what to do.
func (e *ProxyError) Error() string {
	field := e.Field
	if field == "" {
		field = "their field"
	}
	return fmt.Sprintf("%d of %d lines of %q come from %s: a proxy in front would be limited in the place of its clients; "+
		"if there is one, name it with --trusted-proxies where the log has X-Forwarded-For, or log the client's address and name its field, as in --key-column x_forwarded_for; "+
		"if these are clients, for example one that attacks, name %s with --key-column",
		e.Lines, e.Of, e.Path, e.Client, field)
}

// check returns a *ProxyError if most lines come from one address or from private ones.
func (s *sample) check(path string, format accesslog.Format) error {
	what, count := "", 0
	for client, n := range s.byClient {
		if n > count {
			what, count = client, n
		}
	}
	if 2*count <= s.lines && s.private >= s.edges {
		what, count = "private addresses", s.private
	} else if 2*count <= s.lines || 2*s.edges > s.lines {
		what, count = "edges of "+s.cdn, s.edges
	}
	if s.lines < minSample || 2*count <= s.lines {
		return nil
	}
	e := &ProxyError{Path: path, Client: what, Lines: count, Of: s.lines}
	if format == accesslog.CLF {
		e.Field = "remote_addr"
	}
	return e
}

// judge reads the end of the log, and of its predecessor if the log is short, and returns
// an error if a proxy seems to be in front, or if no line can be parsed.
func (l *rotatedLog) judge() error {
	var s sample
	if err := l.sampleFile(&s, l.path); err != nil && !isMissing(err) {
		return err
	}
	if before := predecessorsOf(l.path); len(before) > 0 && s.lines < minSample {
		if err := l.sampleFile(&s, before[len(before)-1].path); err != nil {
			l.logf("%v: this rotated file is not examined.", err)
		}
	}
	if l.read.Key != "" || l.read.Filter != nil { // failures may all be of one attacker
		return nil
	}
	if s.lines < minSample { // the lines that come decide
		return nil
	}
	l.sample = s
	return l.checkSample()
}

func (l *rotatedLog) checkSample() error {
	if l.parser == nil || l.read.Key != "" || l.read.Filter != nil {
		return nil
	}
	return l.sample.check(l.path, l.parser.Format())
}

func (l *rotatedLog) sampleFile(s *sample, path string) error {
	t, err := openTail(path, "", 0)
	if err != nil {
		return err
	}
	defer t.close()
	if info, err := t.file.Stat(); err == nil && t.unpacked == nil && info.Size() > sampleSize {
		t.offset = info.Size() - sampleSize
		if err := t.startAtLine(); err != nil {
			return err
		}
	}
	parser, err := l.parserOf(t)
	if err != nil || parser == nil {
		return err
	}
	for s.lines+s.bad < maxSample {
		line, ok, err := t.next()
		if err != nil || !ok {
			return err
		}
		if line.isLong || parser.IsBlank(line.text) {
			continue
		}
		if r, err := parser.Parse(line.text); errors.Is(err, accesslog.ErrPart) || errors.Is(err, accesslog.ErrSkipped) {
			continue
		} else if err != nil {
			s.bad++
		} else {
			s.add(&r)
		}
	}
	return nil
}
