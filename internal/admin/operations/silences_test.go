package operations

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/notify"
)

func TestEveryKindExceptGoodNewsIsAnAlarm(t *testing.T) {
	for _, k := range notify.Kinds() {
		isAlarm := slices.ContainsFunc(alarms, func(a alarm) bool { return slices.Contains(a.kinds, k) })
		if isAlarm == (k == notify.Recovery || k == notify.AttackEnded || k == notify.Report) {
			t.Errorf("%s is an alarm: %v", k, isAlarm)
		}
	}
}

func TestLostAlarmsNamesAlarmsThatNoChannelSendsAnyMore(t *testing.T) {
	now := time.Date(2026, time.March, 2, 10, 0, 0, 0, time.UTC)
	channel := func(name string, kinds ...notify.Kind) Channel {
		return Channel{Config: notify.Config{Name: name, Kinds: kinds}}
	}
	silence := func(channel string, kind notify.Kind, hours time.Duration) notify.Silence {
		return notify.Silence{Channel: channel, Kind: kind, Until: now.Add(hours * time.Hour)}
	}
	all, off := channel("all"), channel("off")
	off.Disabled = true
	urgent := channel("urgent")
	urgent.UrgentOnly = true
	for name, c := range map[string]struct {
		channels []Channel
		active   []notify.Silence
		more     notify.Silence
		lost     string
	}{
		"one of several kinds":                     {[]Channel{all}, nil, silence("", notify.Outage, 1), ""},
		"the only channel":                         {[]Channel{all}, nil, silence("all", "", 1), "an attack"},
		"one of two channels":                      {[]Channel{all, urgent}, nil, silence("all", "", 1), ""},
		"the only enabled one":                     {[]Channel{all, off}, nil, silence("all", "", 1), "an attack"},
		"the only one with attacks":                {[]Channel{all, channel("other", notify.Outage, notify.Report)}, nil, silence("all", "", 1), "an attack"},
		"the only alarm of a channel":              {[]Channel{channel("phone", notify.Outage, notify.Recovery)}, nil, silence("", notify.Outage, 1), "a fault"},
		"a channel of reports":                     {[]Channel{channel("mail", notify.Report)}, nil, silence("mail", "", 1), ""},
		"the last urgent kind about attacks":       {[]Channel{urgent}, []notify.Silence{silence("", notify.AttackBegan, 1), silence("", notify.AttackSource, 1)}, silence("", notify.EscalationPaused, 1), "an attack"},
		"the last kind":                            {[]Channel{all}, []notify.Silence{silence("", notify.Outage, 1), silence("", notify.JobFailed, 1)}, silence("", notify.RedisEviction, 1), "a fault"},
		"the other silences have expired":          {[]Channel{all}, []notify.Silence{silence("", notify.Outage, 0), silence("", notify.JobFailed, 0)}, silence("", notify.RedisEviction, 1), ""},
		"the last channel":                         {[]Channel{all, urgent}, []notify.Silence{silence("all", "", 1)}, silence("urgent", "", 1), "an attack"},
		"already silent for longer":                {[]Channel{all}, []notify.Silence{silence("", "", 2)}, silence("all", "", 1), ""},
		"already silent for less time":             {[]Channel{all}, []notify.Silence{silence("", "", 1)}, silence("all", "", 2), "an attack"},
		"already silent by two silences in a row":  {[]Channel{all}, []notify.Silence{silence("", "", 1), silence("all", "", 3)}, silence("all", "", 2), ""},
		"without any channel":                      {nil, nil, silence("", notify.Outage, 1), ""},
		"other kinds are silent by other silences": {[]Channel{all}, []notify.Silence{silence("all", notify.Outage, 5), silence("", notify.JobFailed, 5)}, silence("", notify.RedisEviction, 1), "a fault"},
	} {
		t.Run(name, func(t *testing.T) {
			lost := ""
			if a := lostAlarms(c.channels, c.active, c.more, now); a != nil {
				lost = a.about
			}
			if lost != c.lost {
				t.Errorf("lost %q, want %q", lost, c.lost)
			}
		})
	}
}
