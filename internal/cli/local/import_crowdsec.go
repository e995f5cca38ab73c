package local

import (
	"errors"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// crowdSecProfile is a profile of CrowdSec's profiles.yaml.
type crowdSecProfile struct {
	Name      string   `yaml:"name"`
	Filters   []string `yaml:"filters"`
	Decisions []struct {
		Type     string `yaml:"type"`
		Scope    string `yaml:"scope"`
		Duration string `yaml:"duration"`
	} `yaml:"decisions"`
	DurationExpr  string    `yaml:"duration_expr"`
	Notifications []string  `yaml:"notifications"`
	OnSuccess     string    `yaml:"on_success"`
	OnFailure     string    `yaml:"on_failure"`
	Captcha       yaml.Node `yaml:"captcha"`
}

// convertCrowdSec says what the profiles of CrowdSec are in Stint. It makes no policies, since what
// leads to a ban is in scenarios. Decisions and allow-lists are files that 'block import' and
// 'exemption import' read.
func convertCrowdSec(file io.Reader) (*conversion, error) {
	c := &conversion{}
	c.note("Decisions and allow-lists of CrowdSec are imported as they are printed:")
	c.note("  cscli decisions list -a -o json | stint-admin block import - --reason CrowdSec --for 4h --skip-bad")
	c.note("  cscli allowlists inspect NAME -o json | stint-admin exemption import - --reason 'allow-list of CrowdSec' --permanent")
	c.note("Scenarios are written in a language of their own: apply the preset that is like them (stint-admin preset list).")
	decoder := yaml.NewDecoder(file)
	for n := 0; ; n++ {
		var p crowdSecProfile
		err := decoder.Decode(&p)
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			return c, nil
		case err != nil || p.Name == "":
			return nil, console.Usagef("it is no file of profiles of CrowdSec, such as /etc/crowdsec/profiles.yaml")
		}
		c.convertProfile(p)
	}
}

func (c *conversion) convertProfile(p crowdSecProfile) {
	where := "profile " + p.Name
	if p.DurationExpr != "" {
		c.lacks(where, "duration_expr: bans that grow are an escalation with a factor")
	}
	if len(p.Notifications) > 0 {
		c.lacks(where, "notifications: set up channels by 'notify channel add'")
	}
	for _, filter := range p.Filters {
		if !strings.Contains(filter, `GetScope() == "Ip"`) && !strings.Contains(filter, `GetScope() == "Range"`) {
			c.lacks(where, "the filter %s", filter)
		}
	}
	for _, d := range p.Decisions {
		length, err := time.ParseDuration(d.Duration)
		switch {
		case d.Type != "ban":
			c.lacks(where, "the decision %s", d.Type)
		case err != nil || length < time.Second:
			c.lacks(where, "the duration %q", d.Duration)
		default:
			span := wire.Duration(length.Truncate(time.Second))
			c.note("%s: bans last %s; that is 'duration: %s' in the escalation of a policy", where, span, span)
		}
	}
}
