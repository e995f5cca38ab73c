package offences_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	sqloffences "github.com/stint-dev/stint/internal/sqlstore/offences"
	"github.com/stint-dev/stint/test/geofiles"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// generateOffences fills so many days with rows of about five thousand keys,
// the first ones far heavier, evenly over the minutes.
const generateOffences = `
INSERT INTO offences (span, start, policy_id, mac, kind, refused_by, source, key, place, offences, overcount,
    first_at, first_boundary, first_retry_at, first_meta, last_at, last_boundary, last_retry_at, last_meta)
SELECT 1, minute, 7, decode(substr(md5(k::text), 1, 20), 'hex'), 0, CASE k % 3 WHEN 0 THEN '1/1s' ELSE '20/1m' END, 'edge-1',
    'ip:10.' || k / 65536 || '.' || k / 256 % 256 || '.' || k % 256,
    decode('00000000000000000000ffff0a' || lpad(to_hex(k), 6, '0'), 'hex'), 1 + k % 50, 0, minute, 0, 0, '{"path":"/"}', minute + 59000, 0, 0, ''
FROM (SELECT minute, (20000 * power(random(), 3))::int AS k
    FROM generate_series($1::bigint, $2::bigint - 1, 60000) AS minute, generate_series(1, $3::int)) AS drawn
ON CONFLICT DO NOTHING`

// BenchmarkReportOfTheLastDay fills Postgres with 100,000 offence rows a day
// for three days; STINT_BENCH_ROWS and STINT_BENCH_DAYS ask for more.
func BenchmarkReportOfTheLastDay(b *testing.B) {
	f := storetest.Open(b, servers.Postgres(b).URL)
	rows, days := number(b, "STINT_BENCH_ROWS", 100_000), number(b, "STINT_BENCH_DAYS", 3)
	now := f.Clock.Now().Add(37 * time.Minute)
	connection, err := pgx.Connect(b.Context(), f.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer connection.Close(b.Context())
	for day := days; day > 0; day-- {
		from, to := now.AddDate(0, 0, -day).UnixMilli(), now.AddDate(0, 0, 1-day).UnixMilli()
		minute := int64(60_000)
		if _, err := connection.Exec(b.Context(), generateOffences, from-from%minute, to-to%minute, rows/1440); err != nil {
			b.Fatal(err)
		}
	}
	begun := time.Now()
	if _, err := f.Offences.RollUp(b.Context(), now); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d days were added up in %s", days, time.Since(begun).Round(time.Millisecond))
	if _, err := connection.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	files, err := geoip.Open(geofiles.Dir(b, geofiles.Row{Network: "10.0.3.0/24", Country: "NL", ASN: 64500}))
	if err != nil {
		b.Fatal(err)
	}
	defer keys.LocateBy(files)()
	s := service(f)
	for name, q := range map[string]offences.Query{
		"last day":            {From: now.AddDate(0, 0, -1), To: now, Points: 48},
		"last hour":           {From: now.Add(-time.Hour), To: now, Points: 30},
		"all days":            {From: now.AddDate(0, 0, -days), To: now, Points: 48},
		"last day by network": {From: now.AddDate(0, 0, -1), To: now, Pattern: keytest.Pattern(b, "ip:10.0.3.0/24")},
		"last day by country": {From: now.AddDate(0, 0, -1), To: now, Pattern: keytest.Pattern(b, "country:NL")},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := s.Offenders(b.Context(), q)
				if err != nil || len(r.Rows) == 0 {
					b.Fatalf("%d rows, %v", len(r.Rows), err)
				}
			}
		})
	}
}

// BenchmarkFlush writes the offences that so many keys commit again and again within a minute,
// as a node does each second.
func BenchmarkFlush(b *testing.B) {
	const refusedKeys = 8000
	for name, open := range map[string]func(testing.TB) *storetest.Fixture{
		"sqlite":   storetest.OpenSQLite,
		"postgres": func(t testing.TB) *storetest.Fixture { return storetest.Open(t, servers.Postgres(t).URL) },
	} {
		b.Run(name, func(b *testing.B) {
			f := open(b)
			n := newCounting(b, f.Offences, f.Clock, "a", nil)
			refuse := func() {
				for i := range refusedKeys {
					n.limited("limited:"+strconv.Itoa(i), 1)
				}
			}
			refuse()
			if err := n.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			before := n.Stats().Flushed
			for b.Loop() {
				b.StopTimer()
				refuse()
				b.StartTimer()
				if err := n.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n.Stats().Flushed-before), "ns/row")
		})
	}
}

func number(t testing.TB, variable string, standard int) int {
	text := os.Getenv(variable)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, not a number", variable, text)
	}
	return n
}

// TestRankOfLastDayUsesIndexes reads the plan that Postgres makes for
// what Rank sends.
func TestRankOfLastDayUsesIndexes(t *testing.T) {
	f := storetest.Open(t, servers.Postgres(t).URL)
	now := f.Clock.Now().Add(37 * time.Minute)
	connection, err := pgx.Connect(t.Context(), f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	from := now.AddDate(0, 0, -4).Truncate(time.Minute).UnixMilli()
	if _, err := connection.Exec(t.Context(), generateOffences, from, now.UnixMilli(), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Offences.RollUp(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Exec(t.Context(), "VACUUM ANALYZE"); err != nil {
		t.Fatal(err)
	}
	query, args, err := sqloffences.RankStatement(f.Offences, t.Context(), offences.Query{From: now.AddDate(0, 0, -1), To: now})
	if err != nil {
		t.Fatal(err)
	}
	for i := len(args); i > 0; i-- { // EXPLAIN takes no parameters
		query = strings.ReplaceAll(query, "$"+strconv.Itoa(i), literal(args[i-1]))
	}
	lines, err := connection.Query(t.Context(), "EXPLAIN "+query)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(lines, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(plan, "\n")
	if strings.Contains(text, "Seq Scan on offences ") || !strings.Contains(text, "offence_days_pkey") || !strings.Contains(text, "offences_pkey") {
		t.Errorf("the plan is\n%s", text)
	}
}

func literal(arg any) string {
	if text, is := arg.(string); is {
		return "'" + text + "'"
	}
	return fmt.Sprint(arg)
}
