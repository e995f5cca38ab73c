package api

import (
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// common is embedded by the handlers that use the catalog and the clock.
type common struct {
	catalog View
	now     func() time.Time
}

// key reads a key that an operator names. The error is a *fault.Error.
func (h *common) key(text string) (keys.Key, error) {
	return fault.ReadKey(admin.FilterReading(h.catalog), "key", text)
}

// pattern reads the pattern of a filter; field is its name in the request. The error is a
// *fault.Error.
func (h *common) pattern(field, text string) (keys.Pattern, error) {
	return fault.ReadPattern(admin.FilterReading(h.catalog), field, text)
}

// policyName returns the name of a policy, "" if it does not exist.
func (h *common) policyName(id int64) string {
	if p, found := h.catalog.Selector().ByID(id); found {
		return p.Name
	}
	return ""
}

// wireEntry returns an entry as the API shows it now.
func (h *common) wireEntry(e *blocks.Entry) wire.Entry {
	return fromEntry(e, h.policyName(e.PolicyID), h.now())
}

// The time ranges of reports.
const (
	defaultTimeRange = time.Hour
	maxTimeRange     = 5 * 366 * 24 * time.Hour
)

// timesOf returns the ends of a time range. The default is the last hour.
func (h *common) timesOf(r wire.TimeRange) (from, to time.Time, err error) {
	from, to = r.From.Time, r.To.Time
	if to.IsZero() {
		to = h.now()
	}
	switch {
	case r.Last != "" && !(r.From.IsZero() && r.To.IsZero()):
		return from, to, fault.Field("last", "cannot be combined with from or to")
	case r.Last != "":
		last, err := rules.ParseDuration(r.Last)
		if err != nil {
			return from, to, fault.Field("last", `must be a duration, for example "15m" or "7d"`)
		}
		from = to.Add(-last)
	case from.IsZero():
		from = to.Add(-defaultTimeRange)
	}
	switch {
	case !from.Before(to):
		err = fault.Field("to", "must be after from")
	case to.Sub(from) > maxTimeRange:
		err = fault.Field("from", "must be at most five years before to")
	}
	return from, to, err
}

// policyOf returns the id of the policy of a name, 0 for no name.
func (h *common) policyOf(name string) (int64, error) {
	p, found := h.catalog.Selector().ByName(name)
	switch {
	case name == "":
		return 0, nil
	case !found:
		return 0, fault.NoSuch("policy", "there is no policy of that name")
	}
	return p.ID, nil
}
