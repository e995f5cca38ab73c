package adminui_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-dev/stint/test/storetest"
)

// BenchmarkMillion shows the pages with long lists, and their operations of the API, over a database of each
// kind that has a million rows each of offences of the hours of the last day, by 200,000 keys, of the traffic of keys,
// of blocks, of what was requested, and of audit records. least-ms and cpu-ms are as in BenchmarkWatch.
func BenchmarkMillion(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) {
		path := storetest.Migrated.SQLite(b)
		benchmarkMillion(b, newNodeOn(b, path, botsOfTables), &million{driver: "sqlite", url: path})
	})
	b.Run("Postgres", func(b *testing.B) {
		url := storetest.Migrated.Postgres(b).URL
		benchmarkMillion(b, newNodeOn(b, url, botsOfTables), &million{driver: "pgx", url: url})
	})
}

func benchmarkMillion(b *testing.B, n *node, m *million) {
	ctx := context.Background()
	v := n.as(b, "olu")
	m.write(b, n.clock.Now())
	n.manyRequested(b, 500, 2000)
	if m.driver == "pgx" {
		vacuum(b, m.url)
	}
	must(b, n.store.Offences.WarmCache(ctx, n.clock.Now())) // as a node does beside its checks
	for _, path := range []string{
		"/keys/active", "/keys/active?last=24h", "/keys/active?last=24h&refused=never", "/keys/active?last=24h&search=10.1", "/keys/active?last=24h&pattern=ip:10.1.0.0/16", "/v1/keys/active?last=24h&never_refused=true",
		"/traffic", "/traffic?last=24h", "/traffic?last=24h&is=method%3DPOST", "/traffic?last=24h&not=method%3DPOST", "/traffic?last=7d&not=path%3D/section1/page", "/v1/traffic/by/path?last=24h&not=method%3DPOST", "/bots", "/bots?last=7d",
		"/", "/?last=24h", "/offenders", "/offenders?last=24h", "/offenders?last=24h&state=open", "/offenders?last=24h&search=10.1", "/offenders?last=24h&rule=20/1m", "/offenders?last=24h&pattern=ip:10.1.0.0/16", "/offenders?last=24h&sort=last", "/v1/offenders?last=24h",
		"/blocks", "/blocks?source=automatic", "/blocks?q=10.1.2", "/blocks?q=nothing+like+it", "/blocks?state=ended", "/blocks?order=expiry", "/blocks?within=ip:10.1.0.0/16", "/v1/blocks", "/v1/blocks?search=10.1.2",
		"/audit", "/audit?actor=op7", "/audit?actor=nobody", "/audit?action=block.end", "/audit?action=token", "/audit?object=block", "/audit?object=policy", "/audit?q=10.1.2.3", "/audit?q=nothing+like+it", "/audit?object=block&object_id=id77", "/v1/audit", "/v1/audit?search=nothing",
		"/key?key=ip:10.0.0.7", "/key?key=ip:10.0.0.7&last=24h", "/live", "/attacks", "/policies/default", "/policies/default/usage",
	} {
		b.Run(path, func(b *testing.B) {
			least, cpu := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
			for b.Loop() {
				began, used := time.Now(), processorTime(b)
				v.do(http.MethodGet, path, nil, http.Header{"Accept-Encoding": {"gzip"}}).is(http.StatusOK)
				least, cpu = min(least, time.Since(began)), min(cpu, processorTime(b)-used)
			}
			b.ReportMetric(float64(least.Microseconds())/1000, "least-ms")
			b.ReportMetric(float64(cpu.Microseconds())/1000, "cpu-ms")
		})
	}
}

// million writes a million rows into each of some tables, by statements of the database itself.
type million struct{ driver, url string }

func (m *million) isPostgres() bool { return m.driver == "pgx" }

// hex returns the expression of a number as so many hexadecimal digits.
func (m *million) hex(digits int, number string) string {
	if m.isPostgres() {
		return fmt.Sprintf("lpad(to_hex(%s), %d, '0')", number, digits)
	}
	return fmt.Sprintf("printf('%%0%dx', %s)", digits, number)
}

// bytes returns the expression of the bytes that hexadecimal digits spell.
func (m *million) bytes(hex string) string {
	if m.isPostgres() {
		return "decode(" + hex + ", 'hex')"
	}
	return "unhex(" + hex + ")"
}

func (m *million) write(b *testing.B, now time.Time) {
	db, err := sql.Open(m.driver, m.url)
	must(b, err)
	defer db.Close()
	numbers := "generate_series(CAST(0 AS BIGINT), 999999) AS n"
	if !m.isPostgres() {
		numbers = "(WITH RECURSIVE up(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM up WHERE n < 999999) SELECT n FROM up) AS numbers"
	}
	address := func(n string) string {
		return fmt.Sprintf("'ip:10.' || (%[1]s >> 16) || '.' || (%[1]s >> 8 & 255) || '.' || (%[1]s & 255)", "("+n+")")
	}
	const key, ruleOf = "n * 7919 % 200000", "CASE n % 3 WHEN 0 THEN '1/1s' WHEN 1 THEN '20/1m' ELSE '200/1h' END"
	low := m.bytes("'00000000000000000000ffff' || " + m.hex(8, "167772160 + n"))
	ms, monthAgo := now.UnixMilli(), now.Add(-30*24*time.Hour).UnixMilli()
	hour := now.Truncate(time.Hour).UnixMilli() // those before it are added up
	counts := func(span, first, length, rows int64, which string) []string {
		start := fmt.Sprintf("%d + %d * (n / %d)", first, length, rows)
		which = numbers + " WHERE " + which
		return []string{
			fmt.Sprintf(`INSERT INTO offences (span, start, policy_id, mac, kind, refused_by, source, key, offences, overcount, first_at, first_boundary, first_retry_at, first_meta, last_at, last_boundary, last_retry_at, last_meta)
				SELECT %[6]d, %[1]s, 1, %[2]s, 0, %[3]s, '', %[4]s, 7, 0, %[1]s, 0, %[1]s + 1000, '', %[1]s + 59000, 0, %[1]s + 60000, '' FROM %[5]s`, start, m.bytes(m.hex(20, key)), ruleOf, address(key), which, span),
			fmt.Sprintf(`INSERT INTO key_traffic (span, start, policy_id, key, allowed, refused, cost, overcount)
				SELECT %d, %s, 1, %s, 20, CASE WHEN %s < 50000 THEN 7 ELSE 0 END, 20, 0 FROM %s`, span, start, address(key), key, which),
			fmt.Sprintf(`INSERT INTO traffic (span, start, policy_id, allowed, limited, blocked, unavailable, shadow_allowed, shadow_limited, cost_allowed, untracked)
				SELECT %d, %s, 1, 20 * %d, 7 * %d, 0, 0, 0, 0, 20 * %d, 0 FROM %s AND n %% %d = 0`, span, start, rows, rows, rows, which, rows),
		}
	}
	statements := slices.Concat(
		counts(2, hour-24*3_600_000, 3_600_000, 41_667, "n < 1000000"),
		counts(1, hour-3_600_000, 60_000, 695, fmt.Sprintf("n < %d", 695*(60+now.Minute()))),
	)
	if !m.isPostgres() { // as soon as there is little to write, a node does
		defer func() {
			_, err := db.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
			must(b, err)
		}()
	}
	for _, statement := range append(statements,
		fmt.Sprintf("UPDATE rollups SET through = %d, part_through = %d WHERE span = 2", hour, hour),
		fmt.Sprintf(`INSERT INTO entries (id, kind, pattern, low, high, reason, author, source, created_at, expires_at, revision)
			SELECT '01890000-0000-7000-8000-' || %s, 'block', %s, %s, %s, 'abuse list', 'import', CASE WHEN n %% 10 = 0 THEN 'automatic' ELSE 'imported' END, %d + 2592 * n, %d + n, 1 FROM %s`,
			m.hex(12, "n"), address("n"), low, low, monthAgo, ms+3_600_000, numbers),
		fmt.Sprintf(`INSERT INTO audit (at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, revision)
			SELECT %d + 2592 * n, 'user', 'u1', 'op' || (n %% 50), '192.0.2.1', CASE n %% 2 WHEN 0 THEN 'block.add' ELSE 'block.end' END, 'block', 'id' || n, 'blocked ' || %s || ' for 1 h', 1 FROM %s`,
			monthAgo, address("n"), numbers),
	) {
		_, err := db.ExecContext(context.Background(), statement)
		must(b, err)
	}
}
