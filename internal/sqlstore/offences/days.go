package offences

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// The table offence_days has a column for each hour of the day, written {hour} below.
const (
	rollUpDay = `
INSERT INTO offence_days (start, key, policy_id, kind, place, {hour})
SELECT CAST($1 AS BIGINT), key, policy_id, kind, place, sum(offences) FROM offences WHERE span = 1 AND start >= $2 AND start < $3 AND key <> ''
GROUP BY key, policy_id, kind, place
ON CONFLICT (start, key, policy_id, kind) DO UPDATE SET {hour} = offence_days.{hour} + excluded.{hour}`
	addToDay     = `INSERT INTO offence_days (start, key, policy_id, kind, place, {hour}) `
	mergeIntoDay = ` ON CONFLICT (start, key, policy_id, kind) DO UPDATE SET {hour} = offence_days.{hour} + excluded.{hour}`
)

// dayColumns are the column types of addToDay.
var dayColumns = []string{db.IntColumn, db.TextColumn, db.IntColumn, db.IntColumn, db.BytesColumn, db.IntColumn}

const hoursOfDay = 24

func hourColumn(hour int64) string { return fmt.Sprintf("h%02d", hour) }

// hourOf returns the hour of the day of an instant.
func hourOf(ms int64) int64 { return ms % spanMS(daySpan) / spanMS(hourSpan) }

func inHourColumn(statement string, hour int64) string {
	return strings.ReplaceAll(statement, "{hour}", hourColumn(hourOf(hour)))
}

// hourSum returns the sum of the columns of the hours from <= hour < to.
func hourSum(from, to int64) string {
	columns := make([]string, 0, hoursOfDay)
	for hour := from; hour < to; hour++ {
		columns = append(columns, hourColumn(hour))
	}
	return strings.Join(columns, " + ")
}

// addLateToDays adds offences of hours that are already added up.
func (t tx) addLateToDays(hours []offences.Offence) error {
	byHour := map[int64][][]any{}
	type id struct {
		start, policy int64
		key           string
		kind          offences.Kind
	}
	sums := merged(hours, func(o *offences.Offence) bool { return o.Key != "" },
		func(o *offences.Offence) id { return id{o.Minute, o.Policy, o.Key, o.Kind} }, (*offences.Offence).Merge)
	for _, o := range sums {
		byHour[o.Minute] = append(byHour[o.Minute], []any{o.Minute - o.Minute%spanMS(daySpan), o.Key, o.Policy, int64(o.Kind), placeOf(o.Key), o.Count})
	}
	for hour, rows := range byHour {
		if err := t.Upsert(inHourColumn(addToDay, hour), inHourColumn(mergeIntoDay, hour), dayColumns, rows); err != nil {
			return err
		}
	}
	return nil
}

// daysUnion returns the query for the offences by key of a span that cover has rounded: minutes
// at the edges, and the hour columns of the days in between.
func daysUnion(q *db.Selection, low, high int64, rollups map[int64]rollup, more *conditions) string {
	hour, day := spanMS(hourSpan), spanMS(daySpan)
	first := low + (hour-low%hour)%hour
	last := min(high, rollups[hourSpan].through)
	last -= last % hour
	if first >= last {
		return union(q, "key, offences AS n", "offences", []segment{{minuteSpan, low, high}}, more.text, more.args...)
	}
	edges := []segment{{minuteSpan, low, first}, {minuteSpan, last, high}}
	parts := []string{union(q, "key, offences AS n", "offences", edges, more.text, more.args...)}
	add := func(from, to, firstHour, lastHour int64) {
		if from < to && firstHour < lastHour {
			parts = append(parts, "SELECT key, "+hourSum(firstHour, lastHour)+" FROM offence_days WHERE "+
				q.Fill("start >= ? AND start < ?"+more.text, append([]any{from, to}, more.args...)...))
		}
	}
	firstDay, lastDay := first-first%day, last-last%day
	if firstDay == lastDay {
		add(firstDay, firstDay+day, hourOf(first), hourOf(last))
	} else {
		add(firstDay, firstDay+day, hourOf(first), hoursOfDay)
		add(firstDay+day, lastDay, 0, hoursOfDay)
		add(lastDay, lastDay+day, 0, hourOf(last))
	}
	return strings.Join(parts, " UNION ALL ")
}
