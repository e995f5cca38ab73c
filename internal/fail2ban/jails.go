package fail2ban

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Jail is an enabled jail.
type Jail struct {
	Name   string
	Filter string // the file, with its options in brackets
	// Logs are the patterns of the files; none for a jail that reads the journal.
	Logs         []string
	JournalMatch string
	MaxRetry     int
	FindTime     time.Duration
	BanTime      time.Duration // 0 for ever
	// Factor is by how much each ban is longer, 1 for none, up to MaxBanTime.
	Factor     float64
	MaxBanTime time.Duration
	Ignored    []netip.Prefix
	// Left says what of the jail has no equivalent.
	Left []string
}

// ReadJails reads the enabled jails of a folder such as /etc/fail2ban.
func ReadJails(folder string) ([]Jail, error) {
	var paths []string
	for _, ext := range []string{".conf", ".local"} {
		if path := filepath.Join(folder, "jail"+ext); exists(path) {
			paths = append(paths, path)
		}
		more, err := filepath.Glob(filepath.Join(folder, "jail.d", "*"+ext))
		if err != nil {
			return nil, err
		}
		paths = append(paths, more...)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no jail.conf", folder)
	}
	c, err := readConfig(paths...)
	if err != nil {
		return nil, err
	}
	var jails []Jail
	for _, name := range c.order {
		if name == defaultSection || name == "INCLUDES" || !c.isTrue(name, "enabled") {
			continue
		}
		jail, err := c.jail(folder, name)
		if err != nil {
			return nil, fmt.Errorf("the jail %s: %w", name, err)
		}
		jails = append(jails, jail)
	}
	return jails, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (c *config) isTrue(section, name string) bool {
	left := maxReplaced
	value, _ := c.expand(section, name, &left)
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(strings.TrimSpace(value)))
}

// jail reads one jail.
func (c *config) jail(folder, name string) (j Jail, err error) {
	j = Jail{Name: name, MaxRetry: 5, Factor: 1}
	text := func(option string) string {
		left := maxReplaced
		value, failed := c.expand(name, option, &left)
		err = errors.Join(err, failed)
		return strings.TrimSpace(value)
	}
	filter := text("filter")
	if filter == "" {
		filter = name
	}
	base, options := splitOptions(filter)
	if mode := text("mode"); mode != "" && options["mode"] == "" && strings.Contains(filter, "mode=") {
		options["mode"] = mode
	}
	j.Filter = filepath.Join(folder, "filter.d", base+".conf")
	if _, rest, found := strings.Cut(filter, "["); found {
		j.Filter += "[" + rest
	}
	duration := func(option string, otherwise time.Duration) time.Duration {
		value := text(option)
		if value == "" {
			return otherwise
		}
		d, failed := parseDuration(value)
		err = errors.Join(err, failed)
		return d
	}
	j.FindTime, j.BanTime = duration("findtime", 10*time.Minute), duration("bantime", 10*time.Minute)
	if value := text("maxretry"); value != "" {
		n, failed := strconv.Atoi(value)
		if err = errors.Join(err, failed); n > 0 {
			j.MaxRetry = n
		}
	}
	j.MaxBanTime = j.BanTime
	if c.isTrue(name, "bantime.increment") {
		j.Factor, j.MaxBanTime = 2, max(duration("bantime.maxtime", 365*24*time.Hour), j.BanTime)
		for _, option := range []string{"bantime.factor", "bantime.formula", "bantime.multipliers"} {
			if value := text(option); value != "" && value != "1" {
				j.Left = append(j.Left, option+" = "+value+": each block is twice as long as the one before")
			}
		}
	}
	if backend := text("backend"); backend == "systemd" || text("logpath") == "" {
		j.JournalMatch = text("journalmatch")
		if filter, failed := ReadFilter(j.Filter, nil); failed == nil && j.JournalMatch == "" {
			j.JournalMatch = filter.JournalMatch
		}
	} else {
		for _, line := range strings.Fields(text("logpath")) {
			if line != "tail" && line != "head" {
				j.Logs = append(j.Logs, line)
			}
		}
	}
	for _, entry := range strings.FieldsFunc(text("ignoreip"), func(c rune) bool { return c == ' ' || c == ',' || c == '\n' || c == '\t' }) {
		prefix, failed := netip.ParsePrefix(entry)
		if addr, isAddress := netip.ParseAddr(entry); isAddress == nil {
			prefix, failed = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if failed != nil {
			j.Left = append(j.Left, "ignoreip "+entry+": it is no address")
			continue
		}
		j.Ignored = append(j.Ignored, prefix.Masked())
	}
	for _, option := range []string{"ignorecommand", "ignorecache", "failregex", "ignoreregex", "datepattern"} {
		if value := text(option); value != "" {
			j.Left = append(j.Left, option+" = "+strings.ReplaceAll(value, "\n", " "))
		}
	}
	if encoding := strings.ToLower(text("logencoding")); encoding != "" && encoding != "auto" && encoding != "utf-8" {
		j.Left = append(j.Left, "logencoding = "+encoding)
	}
	if actions := nonEmptyLines(text("action")); len(actions) > 1 || len(actions) == 1 && !strings.Contains(actions[0], "nftables") && !strings.Contains(actions[0], "iptables") {
		j.Left = append(j.Left, "action: a block takes effect by 'firewall nftables' for all ports, and notifications are channels")
	}
	return j, err
}

// durationUnits are the units of fail2ban, in seconds, without plural and by their beginnings.
var durationUnits = map[string]int64{
	"": 1, "s": 1, "ss": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "m": 60, "mm": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
	"h": 3600, "hh": 3600, "hour": 3600, "hours": 3600, "d": 86400, "dd": 86400, "day": 86400, "days": 86400, "w": 604800, "ww": 604800, "week": 604800, "weeks": 604800,
	"mo": 2629800, "mon": 2629800, "month": 2629800, "months": 2629800, "y": 31557600, "yy": 31557600, "year": 31557600, "years": 31557600,
}

// parseDuration reads a time such as 600, 10m or "1h 30m"; a negative one, which is for ever, is 0.
func parseDuration(text string) (time.Duration, error) {
	if strings.HasPrefix(text, "-") {
		return 0, nil
	}
	rest, seconds := strings.ReplaceAll(text, " ", ""), int64(0)
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 32)
		if err != nil {
			return 0, fmt.Errorf("the time %q cannot be read", text)
		}
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(strings.ToLower(rest), "abcdefghijklmnopqrstuvwxyz"))
		unit, known := durationUnits[strings.ToLower(rest[:letters])]
		if !known {
			return 0, fmt.Errorf("the time %q cannot be read", text)
		}
		seconds, rest = seconds+n*unit, rest[letters:]
	}
	return time.Duration(seconds) * time.Second, nil
}

// OutcomeName returns the name of an outcome that is made of the name of a jail or of a filter.
func OutcomeName(name string) string {
	return strings.Trim(strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '_'
	}, name), "_")
}
