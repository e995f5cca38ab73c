package fail2ban

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter finds the failures in the lines of a log. It is not safe for concurrent use.
type Filter struct {
	Name string
	// JournalMatch says which entries of the journal it is made for, "" for any.
	JournalMatch string
	// Skipped says which expressions could not be read, and why.
	Skipped []string

	prefix       *expression // nil for none
	fail, ignore []*expression
	dates        *dates
	zone         *time.Location
	sessions     map[string]*session
	order        []string // of sessions, the oldest first
}

// Failure is one failure.
type Failure struct {
	Address netip.Addr
	User    string    // "" where the line names none
	IsLogin bool      // it is a login that was refused: its line, or its session, names a user
	At      time.Time // zero where the line has no date
}

// ErrNoFailure is returned for a line without a failure.
var ErrNoFailure = errors.New("the line has no failure")

// maxSessions is how many sessions are remembered, of which failures take several lines.
const maxSessions = 1000

// session is what the lines of one session have said.
type session struct {
	groups    map[string]string
	users     map[string]bool
	isPending bool
}

// ReadFilter reads the filter of a file, such as /etc/fail2ban/filter.d/sshd.conf, with options in
// brackets behind it as in a jail: sshd.conf[mode=aggressive]. zone is that of dates without one.
func ReadFilter(text string, zone *time.Location) (*Filter, error) {
	path, options := splitOptions(text)
	if _, err := os.Stat(path); os.IsNotExist(err) && filepath.Ext(path) == "" {
		path += ".conf"
	}
	c, err := readConfig(withLocal(path)...)
	if err != nil {
		return nil, err
	}
	c.overrides = options
	f := &Filter{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), zone: zone, sessions: map[string]*session{}}
	if f.zone == nil {
		f.zone = time.Local //nolint:gosmopolitan // as the programs that write the log
	}
	if f.JournalMatch, err = c.option("journalmatch"); err != nil {
		return nil, err
	}
	if lines, err := c.option("maxlines"); err == nil && lines != "" {
		if n, err := strconv.Atoi(lines); err == nil && n > 1 {
			return nil, fmt.Errorf("the filter %s reads %d lines at once, which is not supported", f.Name, n)
		}
	}
	for _, kind := range []struct {
		option string
		into   *[]*expression
	}{{"failregex", &f.fail}, {"ignoreregex", &f.ignore}} {
		text, err := c.option(kind.option)
		if err != nil {
			return nil, fmt.Errorf("the filter %s: %w", f.Name, err)
		}
		for _, line := range nonEmptyLines(text) {
			e, err := compile(line)
			switch {
			case strings.Contains(line, "<SKIPLINES>"):
				f.Skipped = append(f.Skipped, kind.option+" reads several lines: "+line)
			case err != nil:
				f.Skipped = append(f.Skipped, fmt.Sprintf("%s: %v", kind.option, err))
			default:
				*kind.into = append(*kind.into, e)
			}
		}
	}
	if len(f.fail) == 0 {
		return nil, fmt.Errorf("the filter %s has no failregex that can be read%s", f.Name, strings.Join(append([]string{""}, f.Skipped...), "; "))
	}
	prefix, err := c.option("prefregex")
	if err == nil && strings.TrimSpace(prefix) != "" {
		f.prefix, err = compile(strings.TrimSpace(prefix))
	}
	if err != nil {
		return nil, fmt.Errorf("the filter %s: prefregex: %w", f.Name, err)
	}
	pattern, err := c.option("datepattern")
	if err != nil {
		return nil, fmt.Errorf("the filter %s: %w", f.Name, err)
	}
	if f.dates, err = newDates(nonEmptyLines(pattern)); err != nil {
		return nil, fmt.Errorf("the filter %s: %w", f.Name, err)
	}
	return f, nil
}

// Parse returns the failure in a line. The error is ErrNoFailure for a line without one.
func (f *Filter) Parse(line string, now time.Time) (Failure, error) {
	rest, at, err := f.dates.cut(line, now, f.zone)
	if err != nil {
		return Failure{}, err
	}
	rest += "\n"
	var common map[string]string
	content := rest
	if f.prefix != nil {
		if common, err = f.prefix.groups(rest); common == nil {
			return Failure{}, noFailure(err)
		}
		if text := common["content"]; text != "" {
			content = text + "\n"
		}
		delete(common, "content")
	}
	for _, e := range f.fail {
		groups, err := e.groups(content)
		if err != nil {
			return Failure{}, err
		}
		if groups == nil {
			continue
		}
		if isIgnored, err := f.isIgnored(rest, content); isIgnored || err != nil {
			return Failure{}, noFailure(err)
		}
		all := maps.Clone(common)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, groups)
		if _, hasSession := all["mlfid"]; hasSession {
			all = f.merge(all["mlfid"], all)
		}
		if all["nofail"] != "" {
			return Failure{}, ErrNoFailure
		}
		failure, err := failureOf(all, at)
		failure.IsLogin = failure.User != "" || slices.Contains(e.names, "user")
		return failure, err
	}
	return Failure{}, ErrNoFailure
}

func noFailure(err error) error {
	if err == nil {
		return ErrNoFailure
	}
	return err
}

func (f *Filter) isIgnored(texts ...string) (bool, error) {
	for _, e := range f.ignore {
		for _, text := range texts {
			if isMatch, err := e.MatchString(text); isMatch || err != nil {
				return isMatch, err
			}
		}
	}
	return false, nil
}

// failureOf returns the failure of the groups of a match. A name is never looked up: a client can
// choose what it leads to.
func failureOf(groups map[string]string, at time.Time) (Failure, error) {
	for _, name := range []string{"ip4", "ip6", "fid"} {
		text := groups[name]
		if text == "" {
			continue
		}
		addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil {
			return Failure{}, fmt.Errorf("the failure is of %q, which is no address", text)
		}
		return Failure{Address: addr.Unmap(), User: groups["user"], At: at}, nil
	}
	if name := groups["dns"]; name != "" {
		if addr, err := netip.ParseAddr(name); err == nil {
			return Failure{Address: addr.Unmap(), User: groups["user"], At: at}, nil
		}
		return Failure{}, fmt.Errorf("the failure is of the name %q; let the program log addresses", name)
	}
	return Failure{}, ErrNoFailure // its address comes in another line of the session
}

// merge joins the groups of a line with those of the lines of the same session before it, as
// fail2ban does: a failure may name no address, and a success after failures of another user is
// no success.
func (f *Filter) merge(id string, groups map[string]string) map[string]string {
	isGained, isNone, forgets := groups["mlfgained"] != "", groups["nofail"] != "", groups["mlfforget"] != ""
	if isGained {
		isNone = true
		if groups["nofail"] == "" {
			groups["nofail"] = groups["mlfgained"]
		}
	}
	delete(groups, "mlfforget")
	s := f.sessions[id]
	if s != nil {
		if user := groups["user"]; user != "" {
			s.users[user] = true
		}
		delete(s.groups, "nofail")
		delete(s.groups, "mlfgained")
		if isGained {
			s.isPending = false
		}
		maps.Copy(s.groups, groups)
		if forgets {
			f.forget(id)
		}
	} else {
		s = &session{groups: groups, users: map[string]bool{}}
		if user := groups["user"]; user != "" && !forgets {
			s.users[user] = true
		}
		if !forgets {
			f.remember(id, s)
		}
	}
	if s.isPending || len(s.users) > 1 {
		s.isPending, isNone = false, false
		delete(s.groups, "nofail")
		delete(s.groups, "mlfgained")
	}
	if !isNone && s.groups["ip4"]+s.groups["ip6"]+s.groups["dns"]+s.groups["fid"] == "" {
		s.isPending = true
	}
	return s.groups
}

func (f *Filter) remember(id string, s *session) {
	if len(f.sessions) >= maxSessions {
		f.forget(f.order[0])
	}
	f.sessions[id], f.order = s, append(f.order, id)
}

func (f *Filter) forget(id string) {
	delete(f.sessions, id)
	if at := slices.Index(f.order, id); at >= 0 {
		f.order = slices.Delete(f.order, at, at+1)
	}
}
