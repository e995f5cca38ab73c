package local

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// rateLimitDomain is a file of envoyproxy/ratelimit.
type rateLimitDomain struct {
	Domain      string           `yaml:"domain"`
	Descriptors []rateDescriptor `yaml:"descriptors"`
}

type rateDescriptor struct {
	Key            string           `yaml:"key"`
	Value          string           `yaml:"value"`
	RateLimit      *rateLimit       `yaml:"rate_limit"`
	Descriptors    []rateDescriptor `yaml:"descriptors"`
	ShadowMode     bool             `yaml:"shadow_mode"`
	QuotaMode      bool             `yaml:"quota_mode"`
	DetailedMetric bool             `yaml:"detailed_metric"`
	ValueToMetric  bool             `yaml:"value_to_metric"`
	ShareThreshold bool             `yaml:"share_threshold"`
}

type rateLimit struct {
	RequestsPerUnit *uint32 `yaml:"requests_per_unit"`
	Unit            string  `yaml:"unit"`
	Unlimited       bool    `yaml:"unlimited"`
	Name            string  `yaml:"name"`
	Replaces        []struct {
		Name string `yaml:"name"`
	} `yaml:"replaces"`
}

// rateUnits are the units of envoyproxy/ratelimit as rules have them.
var rateUnits = map[string]string{"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "7d", "month": "30d", "year": "365d"}

// convertRateLimits converts a file of envoyproxy/ratelimit, which may hold several domains.
func convertRateLimits(file io.Reader) (*conversion, error) {
	c, matched := &conversion{}, map[string]string{}
	c.note("Windows of envoyproxy/ratelimit begin at each full unit and let twice the limit pass around it; these slide.")
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	for n := 0; ; n++ {
		var d rateLimitDomain
		switch err := decoder.Decode(&d); {
		case errors.Is(err, io.EOF) && n > 0:
			return c, nil
		case err != nil:
			return nil, console.Usagef("it is no configuration of envoyproxy/ratelimit: %w", err)
		case d.Domain == "":
			return nil, console.Usagef("it is no configuration of envoyproxy/ratelimit: it has no domain")
		}
		(&envoyRun{conversion: c, domain: d.Domain, matched: matched}).walk(d.Descriptors, nil)
	}
}

type envoyRun struct {
	*conversion
	domain  string
	matched map[string]string // by a pattern, what has its policy, in all domains
}

// walk converts descriptors below a list of entries.
func (r *envoyRun) walk(all []rateDescriptor, above []rateDescriptor) {
	for i := range all {
		entries := slices.Concat(above, all[i:i+1])
		r.convert(entries, isLimitedByKey(all, all[i].Key))
		r.walk(all[i].Descriptors, entries)
	}
}

// isLimitedByKey reports whether a descriptor without a value limits all values of a key.
func isLimitedByKey(all []rateDescriptor, key string) bool {
	for _, d := range all {
		if d.Key == key && d.Value == "" && d.RateLimit != nil && !d.RateLimit.Unlimited {
			return true
		}
	}
	return false
}

func (r *envoyRun) convert(entries []rateDescriptor, hasLimitOfKey bool) {
	d := entries[len(entries)-1]
	where := r.where(entries)
	if d.QuotaMode {
		r.lacks(where, "quota_mode")
	}
	if d.ShareThreshold {
		r.lacks(where, "share_threshold: each value has a limit of its own")
	}
	isUnlimited := d.RateLimit == nil && d.Value != "" && hasLimitOfKey
	if d.RateLimit == nil && !isUnlimited {
		return
	}
	match, problem := r.match(entries)
	if problem != "" {
		r.lacks(where, "%s", problem)
		return
	}
	p := wire.PolicyRequest{Name: where, Match: []string{match}, Mode: "enforce", Rules: []string{}}
	if d.ShadowMode {
		p.Mode = "shadow"
	}
	if l := d.RateLimit; l != nil && !l.Unlimited {
		unit, known := rateUnits[strings.ToLower(l.Unit)]
		if !known || l.RequestsPerUnit == nil {
			r.lacks(where, "the unit %q with requests_per_unit; units are second, minute, hour, day, week, month and year", l.Unit)
			return
		}
		p.Rules = []string{fmt.Sprintf("%d/%s", *l.RequestsPerUnit, unit)}
		if len(l.Replaces) > 0 {
			r.lacks(where, "replaces: both limits apply")
		}
	}
	if strings.HasSuffix(match, "*") && strings.HasPrefix(match, "envoy:") {
		r.note("%s: %s also limits lists that go on behind it, unless a policy is more specific", where, match)
	}
	if known := r.matched[match]; known != "" {
		r.lacks(where, "%s limits the same keys (%s), and a pattern has one policy of its own", known, match)
		return
	}
	r.matched[match] = where
	r.add(where, p)
}

// where names a descriptor in comments and policies.
func (r *envoyRun) where(entries []rateDescriptor) string {
	parts := []string{r.domain}
	for _, e := range entries {
		part := e.Key
		if e.Value != "" {
			part += " " + e.Value
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// match returns the pattern of the keys of a list of entries, or why there is none.
func (r *envoyRun) match(entries []rateDescriptor) (match, problem string) {
	if e := entries[0]; len(entries) == 1 && (e.Key == "remote_address" || e.Key == "masked_remote_address") {
		switch {
		case e.Key == "remote_address" && e.Value == "":
			return "ip:*", ""
		case e.Value == "":
			return "", "networks of an address of any size; write them as further keys of a policy (also: [net:/24])"
		}
		return "ip:" + e.Value, ""
	}
	var b strings.Builder
	b.WriteString("envoy:" + escapeEnvoy(r.domain) + ":")
	for i, e := range entries {
		isLast := i == len(entries)-1
		value, isPrefix := strings.CutSuffix(e.Value, "*")
		if !isLast && (e.Value == "" || isPrefix) {
			return "", "any value of " + e.Key + " before a further entry, which a pattern cannot say; send the entry with the fixed value first, and convert again"
		}
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(escapeEnvoy(e.Key) + "=" + escapeEnvoy(value))
		if isLast && (e.Value == "" || isPrefix) {
			b.WriteByte('*')
		}
	}
	return b.String(), ""
}

// escapeEnvoy writes a text as the keys of descriptors have it: all bytes but letters, digits and
// -._~/@+ percent-encoded.
func escapeEnvoy(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/@+", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
