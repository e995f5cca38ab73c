package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/algorithms"
)

// isCalendar reports whether the rule counts in periods of the calendar: "1000/calendar-month".
func (r Rule) isCalendar() bool { return r.Calendar != "" }

// HasCalendar reports whether a rule counts in periods of the calendar.
func (s Stack) HasCalendar() bool { return slices.ContainsFunc(s, Rule.isCalendar) }

// zoneUTC is the time zone of rules that name none.
const zoneUTC = "UTC"

// InZone returns s with the time zone of its rules of the calendar, "" for UTC.
func (s Stack) InZone(zone string) Stack {
	if zone == zoneUTC {
		zone = ""
	}
	all := slices.Clone(s)
	for i := range all {
		if all[i].isCalendar() {
			all[i].Zone = zone
		}
	}
	return all
}

// CheckZone returns an error unless zone is the name of a time zone, or "" for UTC.
func CheckZone(zone string) error {
	_, err := algorithms.CalendarOf(algorithms.CalendarDay, zone)
	return err
}

// SetZone puts the rules of the calendar into a time zone. The error is a *TextError.
func (p *Policy) SetZone(zone string) error {
	if err := CheckZone(zone); err != nil {
		return &TextError{"time_zone", err}
	}
	if zone != "" && !p.counts(Rule.isCalendar) {
		return &TextError{"time_zone", fmt.Errorf("needs a rule of the calendar, for example 1000/calendar-month")}
	}
	p.Rules = p.Rules.InZone(zone)
	for i := range p.Also {
		p.Also[i].Rules = p.Also[i].Rules.InZone(zone)
	}
	return nil
}

// Zone returns the time zone of the policy's rules of the calendar, "" for UTC or if it has none.
func (p *Policy) Zone() string {
	for _, r := range p.Rules {
		if r.isCalendar() {
			return r.Zone
		}
	}
	for _, d := range p.Also {
		for _, r := range d.Rules {
			if r.isCalendar() {
				return r.Zone
			}
		}
	}
	return ""
}

// calendar returns the calendar of a rule, nil for a window that slides.
func (r Rule) calendar() *algorithms.Calendar {
	if !r.isCalendar() {
		return nil
	}
	c, err := algorithms.CalendarOf(r.Calendar, r.Zone)
	if err != nil { // no policy is stored with such a zone
		c, _ = algorithms.CalendarOf(r.Calendar, "")
	}
	return c
}

// sliding returns the rules whose windows slide, and those of the calendar.
func (s Stack) sliding() (sliding, calendar Stack) {
	for _, r := range s.Windows() {
		if r.isCalendar() {
			calendar = append(calendar, r)
		} else {
			sliding = append(sliding, r)
		}
	}
	return sliding, calendar
}

// describeCalendar returns a sentence about the rules of the calendar, "" for none.
func (s Stack) describeCalendar() string {
	_, calendar := s.sliding()
	if len(calendar) == 0 {
		return ""
	}
	clauses := make([]string, len(calendar))
	for i, r := range calendar {
		limit := strings.TrimSpace(grouped(int64(r.Limit)) + " " + r.Unit)
		clauses[i] = fmt.Sprintf("%s in each %s", limit, r.CalendarWords())
	}
	return "At most " + list(clauses) + ". Around midnight between two of them up to twice as many can come, because such a period does not slide."
}

// CalendarWords names the periods of a rule of the calendar: "month of the calendar in Europe/Berlin".
func (r Rule) CalendarWords() string {
	zone := r.Zone
	if zone == "" {
		zone = zoneUTC
	}
	return strings.TrimPrefix(r.Calendar, "calendar-") + " of the calendar in " + zone
}
