package policies

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// amountFields are what a policy counts if that is not requests, and what its checks hold, as texts.
type amountFields struct {
	Unit, Cost       string
	TimeZone         string // of rules of the calendar, "" for UTC
	Concurrent, Hold string
	OnExpiry         string // "" for the default, or as in the API
}

func amountFieldsOf(p *rules.Policy) amountFields {
	f := amountFields{Unit: p.Rules.Unit(), TimeZone: p.Zone(), OnExpiry: string(p.OnExpiry)}
	if p.Cost > 0 {
		f.Cost = strconv.Itoa(p.Cost)
	}
	if n := p.Rules.Concurrent(); n > 0 {
		f.Concurrent = strconv.Itoa(n)
	}
	if p.Hold > 0 {
		f.Hold = rules.FormatDuration(p.Hold)
	}
	return f
}

func amountFieldsFrom(values url.Values) amountFields {
	get := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	return amountFields{Unit: get("unit"), TimeZone: get("time_zone"), Cost: get("cost"), Concurrent: get("concurrent"), Hold: get("hold"), OnExpiry: get("on_expiry")}
}

// HasAmounts reports whether the fields of amounts and holds are shown open.
func (d *draft) HasAmounts() bool {
	for _, field := range []string{"unit", "time_zone", "cost", "concurrent", "hold", "on_expiry"} {
		if d.FieldErrors[field] != "" {
			return true
		}
	}
	return d.Amounts != amountFields{}
}

// readUnit validates the unit, which the rows need.
func (d *draft) readUnit() bool {
	if err := rules.CheckUnit(d.Amounts.Unit); err != nil {
		d.FieldErrors["unit"] = format.Capital(err.Error())
		return false
	}
	return true
}

// concurrentRule returns the rule of what is concurrent, false if there is none or it is wrong.
func (d *draft) concurrentRule() (r rules.Rule, isRule, isGood bool) {
	if d.Amounts.Concurrent == "" {
		return r, false, true
	}
	r, err := rules.ParseRule(d.Amounts.Concurrent + " concurrent")
	if err != nil {
		d.FieldErrors["concurrent"] = format.Capital(ruleProblem(err))
		return r, false, false
	}
	return r, true, true
}

// readAmounts parses the cost and the hold into p, whose rules are read, or records the error. Rules that only
// the log of amounts counts choose it.
func (d *draft) readAmounts(p *rules.Policy) bool {
	good := true
	if d.Amounts.Cost != "" {
		var err error
		if p.Cost, err = rules.ParseAmount(d.Amounts.Cost); err != nil {
			d.FieldErrors["cost"], good = format.Capital(err.Error()), false
		}
	}
	if d.Amounts.Hold != "" {
		var err error
		if p.Hold, err = rules.ParseDuration(d.Amounts.Hold); err != nil {
			d.FieldErrors["hold"], good = "Enter a duration such as 30s or 10m.", false
		}
	}
	var wrong *rules.TextError
	if errors.As(p.SetZone(d.Amounts.TimeZone), &wrong) {
		d.FieldErrors["time_zone"], good = format.Capital(wrong.Err.Error()), false
	}
	p.OnExpiry = rules.OnExpiry(d.Amounts.OnExpiry)
	if p.Algorithm == algorithms.TimestampLog && rules.AlgorithmFor(p.Rules, p.Also) == algorithms.AmountLog {
		d.Algorithm = algorithmFieldsOf(&rules.Policy{Algorithm: algorithms.AmountLog})
		p.Algorithm, p.Options = algorithms.AmountLog, algorithms.Options{}
	}
	return good
}

func orUTC(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

// amountWords says what a policy counts and holds, "" for requests that hold nothing.
func amountWords(p *rules.Policy) string {
	var words []string
	if unit := p.Rules.Unit(); unit != "" {
		words = append(words, unit)
	}
	if p.Rules.HasCalendar() {
		words = append(words, "days and months of the calendar in "+orUTC(p.Zone()))
	}
	if p.Cost > 0 {
		words = append(words, format.Amount(p.Cost)+" for a check that says none")
	}
	if p.Hold > 0 {
		words = append(words, "held for "+phrase.Duration(p.Hold))
	}
	if p.OnExpiry != "" {
		words = append(words, map[rules.OnExpiry]string{rules.ExpiryKeeps: "kept", rules.ExpiryReleases: "released"}[p.OnExpiry]+" when a hold expires")
	}
	return strings.Join(words, ", ")
}
