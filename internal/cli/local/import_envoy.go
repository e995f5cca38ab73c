package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// rateLimitDomain is a file of envoyproxy/ratelimit, or what a control plane such as Envoy Gateway sends it,
// which has a name too.
type rateLimitDomain struct {
	Name        string           `yaml:"name"`
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
	Metadata       map[string]any   `yaml:"metadata"`
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

// maxRateLimitFile bounds a file, in bytes.
const maxRateLimitFile = 16 << 20

// convertRateLimits converts a file of envoyproxy/ratelimit, which may hold several domains, or the ConfigMaps of
// Kubernetes that hold such files.
func convertRateLimits(file io.Reader) (*conversion, error) {
	content, err := io.ReadAll(io.LimitReader(file, maxRateLimitFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxRateLimitFile {
		return nil, console.Usagef("it is no configuration of envoyproxy/ratelimit: it has more than %d MiB", maxRateLimitFile>>20)
	}
	c, matched := &conversion{}, map[string]string{}
	c.note("Windows of envoyproxy/ratelimit begin at each full unit and let twice the limit pass around it; these slide.")
	files, err := c.configMaps(content)
	if err != nil {
		return nil, err
	}
	for _, text := range files {
		if err := c.rateLimits(text, matched); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// configMaps returns the files within the ConfigMaps of a file of Kubernetes, or the file itself if it is none.
func (c *conversion) configMaps(content []byte) (files []string, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var object struct {
			APIVersion string         `yaml:"apiVersion"`
			Kind       string         `yaml:"kind"`
			Data       map[string]any `yaml:"data"`
		}
		err := decoder.Decode(&object)
		switch {
		case errors.Is(err, io.EOF):
			if len(files) == 0 {
				return nil, console.Usagef("it has no configuration of envoyproxy/ratelimit in a ConfigMap")
			}
			return files, nil
		case len(files) == 0 && (err != nil || object.APIVersion == "" || object.Kind == ""):
			return []string{string(content)}, nil //nolint:nilerr // who reads it says what is wrong
		case err != nil:
			return nil, notRateLimits(err)
		case object.Kind != "ConfigMap":
			c.note("The %s of Kubernetes is left out.", object.Kind)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(object.Data)) {
			if text, is := object.Data[name].(string); is {
				files = append(files, text)
			}
		}
	}
}

// inType matches what errors of the YAML package say about types of this program.
var inType = regexp.MustCompile(` (?:in type|into) local\.\w+`)

// notRateLimits returns the error for a file that cannot be read.
func notRateLimits(err error) error {
	text := err.Error()
	if several, is := errors.AsType[*yaml.TypeError](err); is {
		text = strings.Join(several.Errors, "; ")
	}
	return console.Usagef("it is no configuration of envoyproxy/ratelimit: %s", inType.ReplaceAllString(text, ""))
}

// rateLimits converts the domains of a file.
func (c *conversion) rateLimits(text string, matched map[string]string) error {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	for n := 0; ; n++ {
		var d rateLimitDomain
		switch err := decoder.Decode(&d); {
		case errors.Is(err, io.EOF) && n > 0:
			return nil
		case err != nil:
			return notRateLimits(err)
		case d.Domain == "":
			return console.Usagef("it is no configuration of envoyproxy/ratelimit: it has no domain")
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
	if len(d.Metadata) > 0 {
		r.lacks(where, "metadata, which answers do not have")
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
		case e.Key == "remote_address" && (e.Value == "" || e.Value == "*"):
			return "ip:*", ""
		case e.Value == "" || e.Value == "*":
			return "", "networks of an address of any size; write them as further keys of a policy (also: [net:/24])"
		}
		if strings.Contains(e.Value, "*") {
			return "", "a * within an address; write a network"
		}
		return "ip:" + e.Value, ""
	}
	var b strings.Builder
	b.WriteString("envoy:" + escapeEnvoy(r.domain) + ":")
	for i, e := range entries {
		isLast := i == len(entries)-1
		value, isPrefix := strings.CutSuffix(e.Value, "*")
		if strings.Contains(value, "*") {
			return "", "a * within the value of " + e.Key + ", which a pattern cannot say"
		}
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
