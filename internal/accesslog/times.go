package accesslog

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxTime is the last millisecond of the year 9999.
const maxTime = 253402300799999

var (
	errTime      = errors.New("the time is none of RFC 3339, 2006-01-02 15:04:05, 2006/01/02 15:04:05, 02/Jan/2006:15:04:05 -0700, that of HTTP and a Unix time in s, ms, us or ns")
	errCLFTime   = errors.New("the time is not written 02/Jan/2006:15:04:05 -0700")
	errTimeRange = errors.New("the time lies outside the years 1970 to 9999")
)

// clfTimeLength is the length of "17/May/2015:10:05:03 +0000".
const clfTimeLength = 26

// parseCLFTime reads the time of Common Log Format as Unix milliseconds. It
// allocates nothing.
//
// Fast path. Plain version: time.Parse, which knows no leap seconds; FuzzCLFTime compares both.
// Benchmark: BenchmarkCLFTime, 7 times faster.
func parseCLFTime(b []byte) (int64, error) {
	if len(b) != clfTimeLength || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return 0, errCLFTime
	}
	day, okDay := digits(b[0:2])
	month := monthOf(b[3], b[4], b[5])
	year, okYear := digits(b[7:11])
	hour, okHour := digits(b[12:14])
	minute, okMinute := digits(b[15:17])
	second, okSecond := digits(b[18:20])
	zoneHour, okZoneHour := digits(b[22:24])
	zoneMinute, okZoneMinute := digits(b[24:26])
	if !okDay || month == 0 || !okYear || !okHour || !okMinute || !okSecond || !okZoneHour || !okZoneMinute {
		return 0, errCLFTime
	}
	// A second of 60 is a leap second, which Unix time counts as the next one.
	if day < 1 || day > daysIn(month, year) || hour > 23 || minute > 59 || second > 60 || zoneHour > 23 || zoneMinute > 59 {
		return 0, errCLFTime
	}
	offset := int64(zoneHour*3600 + zoneMinute*60)
	switch b[21] {
	case '+':
	case '-':
		offset = -offset
	default:
		return 0, errCLFTime
	}
	seconds := daysSinceEpoch(year, month, day)*86400 + int64(hour*3600+minute*60+second) - offset
	return inRange(seconds * 1000)
}

func digits(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func monthOf(a, b, c byte) int {
	switch uint32(a)<<16 | uint32(b)<<8 | uint32(c) {
	case 'J'<<16 | 'a'<<8 | 'n':
		return 1
	case 'F'<<16 | 'e'<<8 | 'b':
		return 2
	case 'M'<<16 | 'a'<<8 | 'r':
		return 3
	case 'A'<<16 | 'p'<<8 | 'r':
		return 4
	case 'M'<<16 | 'a'<<8 | 'y':
		return 5
	case 'J'<<16 | 'u'<<8 | 'n':
		return 6
	case 'J'<<16 | 'u'<<8 | 'l':
		return 7
	case 'A'<<16 | 'u'<<8 | 'g':
		return 8
	case 'S'<<16 | 'e'<<8 | 'p':
		return 9
	case 'O'<<16 | 'c'<<8 | 't':
		return 10
	case 'N'<<16 | 'o'<<8 | 'v':
		return 11
	case 'D'<<16 | 'e'<<8 | 'c':
		return 12
	}
	return 0
}

func daysIn(month, year int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSinceEpoch counts the days from 1970-01-01 in the Gregorian calendar. It
// lets the year begin in March, so that the leap day is its last, and counts in
// eras of 400 years, which all have the same number of days.
func daysSinceEpoch(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400
	yearOfEra := year - era*400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	dayOfEra := yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear
	return int64(era)*146097 + int64(dayOfEra) - 719468
}

func inRange(ms int64) (int64, error) {
	if ms < 0 || ms > maxTime {
		return 0, errTimeRange
	}
	return ms, nil
}

// layouts are the written times of all but Common Log Format. Go's parser accepts a fraction of a
// second after any of them.
var layouts = []string{
	time.RFC3339,
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	"2006/01/02 15:04:05",
	"02/Jan/2006:15:04:05",
	"02/Jan/2006 15:04:05",
	time.ANSIC,
	http.TimeFormat,
	"Mon, 02 Jan 2006 15:04:05 -0700",
}

// clock reads times. The zero value takes one without a zone as UTC. It is not safe for
// concurrent use.
type clock struct {
	zone *time.Location
	last int // the layout of the last time, which is tried first
}

// parse reads a time as Unix milliseconds.
func (c *clock) parse(text string) (int64, error) {
	if len(text) == clfTimeLength && text[2] == '/' {
		if ms, err := parseCLFTime([]byte(text)); err == nil {
			return ms, nil
		}
	}
	if number, err := strconv.ParseFloat(text, 64); err == nil {
		return unixTime(text, number)
	}
	zone := c.zone
	if zone == nil || strings.HasSuffix(text, " GMT") {
		zone = time.UTC
	}
	if t, err := time.ParseInLocation(layouts[c.last], text, zone); err == nil {
		return inRange(t.UnixMilli())
	}
	for i, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			c.last = i
			return inRange(t.UnixMilli())
		}
	}
	return 0, errTime
}

// unixTime distinguishes seconds, milliseconds, microseconds and nanoseconds by size: read
// as seconds, each of the larger units would be after the year 5000.
func unixTime(text string, number float64) (int64, error) {
	switch {
	case math.IsNaN(number) || number < 0:
		return 0, errTimeRange
	case number < 1e11:
		return inRange(int64(math.Floor(number*1000 + 1e-6)))
	case number < 1e14:
		return inRange(int64(number))
	}
	exact, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil && number < 1e17:
		return inRange(int64(number / 1e3))
	case err != nil:
		return 0, errTimeRange
	case exact < 1e17:
		return inRange(exact / 1e3)
	default:
		return inRange(exact / 1e6)
	}
}
