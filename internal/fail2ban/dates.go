package fail2ban

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// dateParts are the expressions of the parts of a date, as fail2ban and Python have them.
var dateParts = map[string]string{
	"a": `(?P<a>mon|tue|wed|thu|fri|sat|sun)`, "A": `(?P<A>monday|tuesday|wednesday|thursday|friday|saturday|sunday)`,
	"b": `(?P<b>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)`, "B": `(?P<B>january|february|march|april|may|june|july|august|september|october|november|december)`,
	"d": `(?P<d>3[0-1]|[1-2]\d|0[1-9]|[1-9]| [1-9])`, "f": `(?P<f>[0-9]{1,9})`, "H": `(?P<H>2[0-3]|[0-1]\d|\d)`, "I": `(?P<I>1[0-2]|0[1-9]|[1-9])`,
	"m": `(?P<m>1[0-2]|0[1-9]|[1-9])`, "M": `(?P<M>[0-5]\d|\d)`, "S": `(?P<S>6[0-1]|[0-5]\d|\d)`, "y": `(?P<y>\d\d)`, "Y": `(?P<Y>\d\d\d\d)`,
	"p": `(?P<p>am|pm)`, "z": `(?P<z>Z|UTC|GMT|[+-][01]\d(?::?\d{2})?)`, "Z": `(?P<Z>Z|[A-Z]{3,5})`, "k": `(?P<H> ?[0-2]?\d)`, "l": `(?P<I> ?1?\d)`,
	"ExY": `(?P<Y>20\d\d)`, "Exy": `(?P<y>\d{2})`, "Exm": `(?P<m>0[1-9]|1[0-2])`, "Exd": `(?P<d>0[1-9]|[1-2]\d|3[0-1])`,
	"ExH": `(?P<H>[0-1]\d|2[0-3])`, "ExM": `(?P<M>[0-5]\d)`, "ExS": `(?P<S>[0-5]\d|6[0-1])`,
}

// defaultDates are the patterns that are looked for where a filter names none.
var defaultDates = []string{
	`%ExY(?P<_sep>[-/.])%m(?P=_sep)%d(?:T|  ?)%H:%M:%S(?:[.,]%f)?(?:\s*%z)?`,
	`(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?`,
	`(?:%a )?%b %d %ExY %k:%M:%S(?:\.%f)?`,
	`%d(?P<_sep>[-/])%m(?P=_sep)(?:%ExY|%Exy) %k:%M:%S`,
	`%d(?P<_sep>[-/])%b(?P=_sep)%ExY[ :]?%H:%M:%S(?:\.%f)?(?: %z)?`,
	`%m/%d/%ExY:%H:%M:%S`,
	`%m-%d-%ExY %k:%M:%S(?:\.%f)?`,
	`EPOCH`,
	`{^LN-BEG}%H:%M:%S`,
	`^<%m/%d/%Exy@%H:%M:%S>`,
	`%Exy%Exm%Exd  ?%H:%M:%S`,
	`%b %d, %ExY %I:%M:%S %p`,
	`^%b-%d-%Exy %k:%M:%S`,
	`%ExY%Exm%Exd(?:T|  ?)%ExH%ExM%ExS(?:[.,]%f)?(?:\s*%z)?`,
	`(?:%Z )?(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?`,
	`(?:%z )?(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?`,
}

const lineBegin = "{^LN-BEG}"

var (
	datePart      = regexp.MustCompile(`%(%|Ex[YymdHMS]|[a-zA-Z])`)
	anyDate       = regexp.MustCompile(`(?i)\{DATE\}`)
	anyEpoch      = regexp.MustCompile(`(?i)\{?L?EPOCH\}?`)
	isGrouped     = regexp.MustCompile(`(?:^|[^\\])\((?:[^?]|$)`)
	endsAtLineEnd = regexp.MustCompile(`(?:\$\)?|\\b|\\s)$`)
)

// dates finds the dates of lines.
type dates struct {
	patterns []*expression
	last     int // the pattern of the last date, which is tried first
}

// newDates compiles the patterns of a filter; none for the default ones.
func newDates(texts []string) (*dates, error) {
	if len(texts) == 0 {
		for _, text := range defaultDates {
			texts = append(texts, anchored(text))
		}
		texts = append(texts, defaultDates...)
	}
	d := &dates{}
	for _, text := range texts {
		all := []string{text}
		if prefix := strings.TrimSpace(text); prefix == lineBegin || anyDate.MatchString(text) {
			all = nil
			for _, other := range defaultDates {
				if prefix == lineBegin {
					all = append(all, anchored(other))
				} else {
					all = append(all, anyDate.ReplaceAllLiteralString(text, strings.TrimPrefix(other, lineBegin)))
				}
			}
		}
		for _, each := range all {
			e, err := compileDate(each)
			if err != nil {
				return nil, fmt.Errorf("the datepattern %q: %w", text, err)
			}
			d.patterns = append(d.patterns, e)
		}
	}
	return d, nil
}

// anchored returns a pattern for the beginning of a line.
func anchored(text string) string {
	if strings.HasPrefix(text, "^") || strings.HasPrefix(text, lineBegin) {
		return text
	}
	return lineBegin + text
}

// compileDate compiles one pattern. The date is the group called date, or the first one that the
// pattern has.
func compileDate(text string) (*expression, error) {
	text, isBegin := strings.CutPrefix(text, lineBegin)
	ignoresCase := regexp.MustCompile(`%[aAbBpc]`).MatchString(text)
	if anyEpoch.MatchString(text) && !strings.Contains(text, "%") {
		text = anyEpoch.ReplaceAllLiteralString(text, `(?P<epoch>\d{10,13}\b(?:\.\d{3,6})?)`)
		if !isBegin && !strings.HasPrefix(text, "^") {
			text = `(?:^|(?<=^\[)|(?<=\baudit\())` + text
		}
	}
	if strings.Contains(strings.ToUpper(text), "TAI64N") {
		text = `@[0-9a-f]{24}`
	}
	hasGroup := isGrouped.MatchString(text)
	text = datePart.ReplaceAllStringFunc(text, func(part string) string {
		if part == "%%" {
			return "%"
		}
		return dateParts[part[1:]]
	})
	if hasGroup {
		at := isGrouped.FindStringIndex(text)
		open := at[0] + strings.IndexByte(text[at[0]:at[1]], '(')
		text = text[:open] + "(?P<date>" + text[open+1:]
	} else if strings.HasPrefix(text, "^") {
		text = "^(?P<date>" + text[1:] + ")"
	} else {
		text = "(?P<date>" + text + ")"
	}
	switch {
	case isBegin:
		text = `^(?:\W{0,2})?` + text
	case !strings.HasPrefix(text, "^"):
		text = `(?=^|\b|\W)` + text
	}
	if !endsAtLineEnd.MatchString(text) {
		text += `(?=\b|\W|$)`
	}
	if ignoresCase {
		text = "(?i)" + text
	}
	return compilePlain(text)
}

// cut returns a line without its date, and the date, zero if there is none.
func (d *dates) cut(line string, now time.Time, zone *time.Location) (rest string, at time.Time, err error) {
	for i := range len(d.patterns) + 1 {
		number := i - 1
		if i == 0 {
			number = d.last
		} else if number == d.last {
			continue
		}
		m, err := d.patterns[number].FindStringMatch(line)
		if err != nil {
			return line, at, err
		}
		if m == nil {
			continue
		}
		groups := map[string]string{}
		for _, name := range d.patterns[number].names {
			if g := m.GroupByName(name); g != nil && len(g.Captures) > 0 {
				groups[name] = g.String()
			}
		}
		d.last = number
		from, length := m.GroupByName("date").ByteRange()
		return line[:from] + line[from+length:], timeOf(groups, now, zone), nil
	}
	return line, at, nil
}

// timeOf returns the time of the parts of a date. A date without a year is of the last one; a part
// that is missing is that of now.
func timeOf(parts map[string]string, now time.Time, zone *time.Location) time.Time {
	if text := parts["epoch"]; text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return time.Time{}
		}
		for seconds > 1e11 {
			seconds /= 1000
		}
		return time.UnixMilli(int64(seconds * 1000))
	}
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(strings.TrimSpace(parts[name])); err == nil {
			return n
		}
		return otherwise
	}
	if text := parts["z"]; text != "" {
		zone = time.UTC
		if text[0] == '+' || text[0] == '-' {
			digits := strings.ReplaceAll(text[1:], ":", "") + "00"
			hours, _ := strconv.Atoi(digits[:2])
			minutes, _ := strconv.Atoi(digits[2:4])
			seconds := hours*3600 + minutes*60
			if text[0] == '-' {
				seconds = -seconds
			}
			zone = time.FixedZone("", seconds)
		}
	}
	now = now.In(zone)
	month := number("m", 0)
	for _, name := range []string{"b", "B"} {
		if text := strings.ToLower(parts[name]); len(text) >= 3 {
			month = strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", text[:3])/3 + 1
		}
	}
	if month == 0 {
		month = int(now.Month())
	}
	year := number("Y", number("y", now.Year()))
	if year < 100 {
		year += 2000
	}
	hour := number("H", number("I", 0))
	switch half := strings.ToLower(parts["p"]); {
	case half == "pm" && hour < 12:
		hour += 12
	case half == "am" && hour == 12:
		hour = 0
	}
	nanoseconds := 0
	if text := parts["f"]; text != "" {
		nanoseconds, _ = strconv.Atoi((text + "000000000")[:9])
	}
	at := time.Date(year, time.Month(month), number("d", now.Day()), hour, number("M", 0), number("S", 0), nanoseconds, zone)
	if parts["Y"] == "" && parts["y"] == "" && at.After(now.Add(24*time.Hour)) {
		at = at.AddDate(-1, 0, 0)
	}
	return at
}
