package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

func TestRulesOfTheCalendarAreWrittenAsTheyAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"1000/calendar-month": "1000/calendar-month", "1M tokens/ calendar-day": "1M tokens/calendar-day", "0/calendar-day": "0/calendar-day",
	} {
		r, err := ParseRule(text)
		if err != nil || r.String() != want || !r.isCalendar() {
			t.Errorf("%s: got %s, %v", text, r, err)
		}
	}
	for _, text := range []string{"5/calendar-year", "5/2calendar-day", "5/calendar-day distinct path", "5 points/calendar-day", "5/month"} {
		if r, err := ParseRule(text); err == nil {
			t.Errorf("%s is read as %s", text, r)
		}
	}
	if _, err := ParseRule("5/month"); !strings.Contains(err.Error(), "calendar-month") {
		t.Errorf("got %v", err)
	}
}

func TestThePolicyNamesTheZoneOfItsCalendar(t *testing.T) {
	read := func(d wire.PolicyRequest) (*Policy, error) {
		d.Name, d.Match = "plan", []string{"user:*"}
		return FromDocument(&d, keys.Parser{}.Pattern)
	}
	p, err := read(wire.PolicyRequest{Rules: []string{"1000/calendar-month", "100/1d", "50/calendar-day"}, Also: []string{"net:/24 9/calendar-day"}, TimeZone: "Europe/Berlin"})
	if err != nil || p.Algorithm != algorithms.AmountLog || p.Zone() != "Europe/Berlin" || p.Also[0].Rules[0].Zone != "Europe/Berlin" {
		t.Fatalf("got %+v, %v", p, err)
	}
	d := p.Document()
	if again, err := read(d); err != nil || !again.Rules.Equal(p.Rules) || d.TimeZone != "Europe/Berlin" {
		t.Errorf("the document %+v is read as %+v, %v", d, again, err)
	}
	want := "At most 100 in any day. At full speed 100"
	if text := p.Describe(); !strings.HasPrefix(text, "At most 100 in any day.") ||
		!strings.Contains(text, "At most 50 in each day of the calendar in Europe/Berlin and 1,000 in each month of the calendar in Europe/Berlin.") || !strings.Contains(text, "up to twice as many") {
		t.Errorf("got %q, want %q and so on", text, want)
	}
	moved := *p
	moved.Rules = p.Rules.InZone("UTC")
	moved.Also = nil
	if diff := Diff(p, &moved); len(diff) != 2 || diff[1].Field != "time_zone" || len(diff[1].After) != 0 {
		t.Errorf("the difference is %+v", diff)
	}
	if len(p.Warnings()) != 0 {
		t.Errorf("warnings %+v", p.Warnings())
	}
	for field, d := range map[string]wire.PolicyRequest{
		"time_zone: ": {Rules: []string{"5/calendar-day"}, TimeZone: "Mars/Base"},
		"time_zone:":  {Rules: []string{"5/1d"}, TimeZone: "Europe/Berlin"},
		"algorithm":   {Rules: []string{"5/calendar-day"}, Algorithm: algorithms.GCRA},
	} {
		if _, err := read(d); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%+v: got %v, want an error about %s", d, err, field)
		}
	}
	var text *TextError
	if _, err := read(wire.PolicyRequest{Rules: []string{"5/calendar-day"}, TimeZone: "Local"}); !errors.As(err, &text) {
		t.Errorf("got %v", err)
	}
}
