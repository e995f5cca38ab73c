package rules

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	groupedCount   = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+$`)
	separatedCount = regexp.MustCompile(`^[0-9]{1,3}([ ,._'\x{a0}\x{2009}\x{202f}’][0-9]{3})+$`)
)

var errLargeCount = errors.New("is too large")

// ParseCount parses a whole number from 0 up as people write it: in digits, which may be grouped
// by commas as the pages show them. Other separators mean a fraction to some readers and thousands
// to others, so the error names the two ways to write the number that was probably meant.
func ParseCount(text string) (int, error) {
	digits := text
	if groupedCount.MatchString(text) {
		digits = strings.ReplaceAll(text, ",", "")
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		if meant := meantCount(text); meant != "" {
			return 0, fmt.Errorf("must be a whole number in digits; write %s", meant)
		}
		return 0, errors.New("must be a whole number in digits, for example 1000 or 1,000")
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, errLargeCount
	}
	return n, nil
}

// meantCount returns how to write a number whose groups of three digits are separated, "" for any
// other text.
func meantCount(text string) string {
	if !separatedCount.MatchString(text) {
		return ""
	}
	groups := strings.FieldsFunc(text, func(c rune) bool { return c < '0' || c > '9' })
	return strings.Join(groups, "") + " or " + strings.Join(groups, ",")
}
