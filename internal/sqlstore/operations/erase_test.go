package operations_test

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// naming returns, for each table with rows that contain a text, these rows.
func naming(t *testing.T, f *storetest.Fixture, text string) map[string][]string {
	t.Helper()
	found, db := map[string][]string{}, f.Raw(t)
	defer db.Close()
	for _, table := range tablesOf(t, f) {
		for _, row := range scanAll(t, db, `SELECT * FROM "`+table+`"`) {
			if strings.Contains(row, text) {
				found[table] = append(found[table], row)
			}
		}
	}
	return found
}

func tablesOf(t *testing.T, f *storetest.Fixture) []string {
	t.Helper()
	list := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
	if f.Postgres() {
		list = `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`
	}
	db := f.Raw(t)
	defer db.Close()
	return scanAll(t, db, list)
}

// scanAll returns rows as texts.
func scanAll(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		parts := make([]string, len(values))
		for i, v := range values {
			if raw, is := v.([]byte); is {
				v = string(raw)
			}
			parts[i] = fmt.Sprint(v)
		}
		all = append(all, strings.Join(parts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func parsed(t *testing.T, text string) keys.Key {
	t.Helper()
	k, err := (keys.Parser{}).Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// keep stores something of every kind about a key.
func keep(t *testing.T, f *storetest.Fixture, key string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.Notes.AddNote(t.Context(), storetest.Operator, wire.NoteRequest{Key: key, Text: "rang us about his bill"})
	must(err)
	_, err = f.Profiles.PutProfile(t.Context(), storetest.Operator, profiles.Profile{Key: key, Plan: "gold", Labels: []string{"eu"}, Note: "the office in Bonn"}, etag.Any)
	must(err)
	batch := storetest.CrossingBatch(fmt.Sprint(len(key)), 1, f.Clock.Now())
	batch.Offences[0].Key, batch.Keys[0].Key = key, key
	sum := sha256.Sum256([]byte(key))
	copy(batch.Offences[0].MAC[:], sum[:])
	requested := &breakdown.Table{}
	row := requested.Row(breakdown.Values{"/of/" + key})
	row.Add(breakdown.Counts{Allowed: 3, Limited: 2})
	row.Clients, row.Offenders = breakdown.Clients{{Key: key, Count: 3}}, breakdown.Clients{{Key: key, Count: 2}}
	requested.AddRest(0, "/rest/"+key, breakdown.Counts{Allowed: 1})
	batch.Breakdowns = []breakdown.Chunk{{Minute: f.Clock.Now().Truncate(time.Minute).UnixMilli(), Data: requested.Encode()}}
	_, err = f.Offences.Flush(t.Context(), batch, storetest.EvaluationAt(f))
	must(err)
	must(f.Outbox.AddNotifications(t.Context(), []notify.Notification{{Kind: notify.Outage, At: f.Clock.Now(), Subject: "About " + key, Text: "It was " + key + ".", Facts: map[string]string{"key": key}}}, nil))
	for _, statement := range []string{
		`INSERT INTO offence_days (start, key, policy_id, kind, place, ` + hours("h%02d") + `) VALUES (0, '` + key + `', 1, 0, (SELECT place FROM offences WHERE key = '` + key + `' LIMIT 1), ` + hours("0") + `)`,
		`INSERT INTO key_traffic (span, start, policy_id, key, place, allowed, refused, cost, overcount) VALUES (60, 0, 1, '` + key + `', (SELECT place FROM offences WHERE key = '` + key + `' LIMIT 1), 1, 1, 1, 0)`,
		`INSERT INTO proposals (id, pattern, created_at, updated_at, evidence) VALUES ('p` + fmt.Sprint(len(key)) + `', 'ip:192.0.' || ` + fmt.Sprint(len(key)) + ` || '.0/24', 0, 0, '{"keys":["` + key + `"]}')`,
		`INSERT INTO attacks (id, began_at, seen_at, ended_at, normal, peak, refused, sources) VALUES ('a` + fmt.Sprint(len(key)) + `', 0, 0, ` + fmt.Sprint(len(key)) + `, 1, 2, 3, '["` + key + `"]')`,
		`INSERT INTO verified_crawlers (address, operator, name, verified_at, written_at) VALUES ('` + strings.TrimPrefix(key, "ip:") + `', 'example', 'crawler.example', 0, 0)`,
		`INSERT INTO escalation_counts (policy_id, key, start, offences) VALUES (7, '` + key + `', 1, 1)`,
		`INSERT INTO documents (id, kind, start, ends, created_at, body) VALUES ('r` + fmt.Sprint(len(key)) + `', 'daily', ` + fmt.Sprint(len(key)) + `, 1, 0, '{"top":["` + key + `"],"text":"` + key + ` asked most."}')`,
	} {
		f.Exec(t, statement)
	}
}

func hours(format string) string {
	var all []string
	for h := range 24 {
		if strings.Contains(format, "%") {
			all = append(all, fmt.Sprintf(format, h))
			continue
		}
		all = append(all, format)
	}
	return strings.Join(all, ", ")
}

// withoutKeys are the tables that erasing a key does not search, and why.
var withoutKeys = map[string]string{
	"audit_anchor": "hashes", "audit_chain": "hashes",
	"block_sources": "what a list is, not what is in it",
	"bouncers":      "addresses of programs that enforce blocks; the answer says that they stay",
	"channels":      "where notifications are sent", "channels_changed": "numbers",
	"count_marks": "names of batches", "deliveries": "attempts to notify", "distinct_keys": "sketches, from which no key can be read",
	"ended_credentials": "of users", "entry_sources": "reasons of blocks; the answer says that they stay",
	"entry_versions": "reasons of blocks; the answer says that they stay", "escalation_pauses": "numbers of all keys",
	"event_log": "how far it is written", "flushed_batches": "names of batches", "job_runs": "results of jobs", "known_logins": "of users",
	"leases": "of nodes", "nodes": "of nodes", "pending_logins": "of users", "policies": "the answer names the policies that name it",
	"policy_versions": "the answer names the policies that name it", "recovery_codes": "of users", "revision": "a number", "rollups": "numbers",
	"safety_units": "sketches, from which no key can be read", "sessions": "of users", "settings": "of Stint",
	"silences": "of notifications", "sites": "keyed hashes of clients", "tokens": "of callers", "totp": "of users", "totp_setups": "of users", "trace": "hashes of keys; the answer says that it stays",
	"traffic": "numbers", "users": "of users", "schema_migrations": "a number",
}

// Whoever adds a table fills it in keep, or says here why no key is in it.
func TestEveryTableThatMayNameAKeyIsErased(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const key = "ip:192.0.2.1"
		keep(t, f, key)
		tables, named := tablesOf(t, f), naming(t, f, "192.0.2.1")
		for _, table := range tables {
			if _, without := withoutKeys[table]; without == (len(named[table]) > 0) {
				t.Errorf("%s names the key in %d rows; that it has none is said: %v", table, len(named[table]), without)
			}
		}
	})
}

func TestErasedKeysAreNowhereAndTheirNeighboursStay(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const key, other, name = "ip:192.0.2.1", "ip:192.0.2.10", "erased:0123456789abcdef"
		keep(t, f, key)
		keep(t, f, other)
		before := naming(t, f, other)
		wantInMemory := func(want ...string) {
			t.Helper()
			from, to := f.Clock.Now().Add(-time.Hour), f.Clock.Now().Add(time.Minute)
			ranked, err := f.Offences.Rank(t.Context(), offences.Query{From: from, To: to})
			if err != nil {
				t.Fatal(err)
			}
			active, err := f.Offences.ActiveKeys(t.Context(), offences.ActiveQuery{From: from, To: to})
			if err != nil {
				t.Fatal(err)
			}
			var offenders, checked []string
			for _, r := range ranked.Rows {
				offenders = append(offenders, r.Key)
			}
			for _, r := range active.Rows {
				checked = append(checked, r.Key)
			}
			if !slices.Equal(offenders, want) || !slices.Equal(checked, want) {
				t.Errorf("the offenders are %q and the checked keys %q, want %q", offenders, checked, want)
			}
		}
		wantInMemory(key, other)
		preview, err := f.Erasure.Erase(t.Context(), storetest.Operator, parsed(t, key), name, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := naming(t, f, "192.0.2.1|"); len(got) == 0 {
			t.Fatal("the preview erased something")
		}
		done, err := f.Erasure.Erase(t.Context(), storetest.Operator, parsed(t, key), name, false)
		if err != nil {
			t.Fatal(err)
		}
		wantInMemory(other)
		if !slices.Equal(preview.Erased, done.Erased) || len(done.Erased) < 10 {
			t.Errorf("the preview said %+v, and %+v was erased", preview.Erased, done.Erased)
		}
		if len(done.Left) != 1 || !strings.Contains(done.Left[0], "is active and stays") {
			t.Errorf("got left %q, want the active block", done.Left)
		}
		if got := naming(t, f, other); len(got) != len(before) {
			t.Errorf("of a longer key that begins like it %v are left, want %v", got, before)
		}
		wantNowhere := func(but ...string) {
			t.Helper()
			for table, rows := range naming(t, f, key) {
				for _, row := range rows {
					if strings.Contains(strings.ReplaceAll(row, other, ""), key) && !slices.Contains(but, table) {
						t.Errorf("%s still has %s", table, row)
					}
				}
			}
			for _, text := range []string{"rang us about his bill", "the office in Bonn"} {
				for table, rows := range naming(t, f, text) {
					for _, row := range rows {
						if !strings.Contains(row, other) {
							t.Errorf("%s still has %s", table, row)
						}
					}
				}
			}
		}
		// The active block stays, and the emptied row of the profile until all nodes know.
		wantNowhere("entries", "profiles")
		storetest.WantIntactChain(t, f, audit.Link{})

		block := done.Left[0][strings.Index(done.Left[0], "block ")+6:]
		id, _, _ := strings.Cut(block, " ")
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", id); err != nil {
			t.Fatal(err)
		}
		if done, err = f.Erasure.Erase(t.Context(), storetest.Operator, parsed(t, key), name, false); err != nil || len(done.Left) != 1 || !strings.Contains(done.Left[0], "erase the key again later") {
			t.Errorf("got %+v %v, want the ended block", done, err)
		}
		f.Clock.Advance(8 * 24 * time.Hour)
		if done, err = f.Erasure.Erase(t.Context(), storetest.Operator, parsed(t, key), name, false); err != nil || len(done.Left) != 0 {
			t.Errorf("got %+v %v, want nothing left", done, err)
		}
		if _, err := f.Retention.DeleteEndedBefore(t.Context(), f.Clock.Now().AddDate(-2, 0, 0)); err != nil {
			t.Fatal(err)
		}
		wantNowhere()
		storetest.WantIntactChain(t, f, audit.Link{})
	})
}

func TestAnErasedRecordThatNoErasureNamesBreaksTheChain(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		keep(t, f, "ip:192.0.2.1")
		id := storetest.NewestRecord(t, f).ID
		f.Exec(t, fmt.Sprintf(`CREATE TABLE one AS SELECT * FROM audit WHERE id = %d`, id))
		f.Exec(t, fmt.Sprintf(`DELETE FROM audit WHERE id = %d`, id))
		f.Exec(t, `UPDATE one SET summary = 'Erased: this record named a key that was erased.', before = '', after = ''`)
		f.Exec(t, `INSERT INTO audit SELECT * FROM one`)
		if v := storetest.VerifyChain(t, f, audit.Link{}); v.Intact || v.ProblemID != id || !strings.Contains(v.Problem, "no record says that an erasure did so") {
			t.Errorf("got %+v, want the record %d", v, id)
		}
	})
}

// rewrite changes a record of the audit as somebody with access to the database can.
func rewrite(t *testing.T, f *storetest.Fixture, id int64, set string) {
	t.Helper()
	f.Exec(t, fmt.Sprintf(`CREATE TABLE one AS SELECT * FROM audit WHERE id = %d`, id))
	f.Exec(t, fmt.Sprintf(`DELETE FROM audit WHERE id = %d`, id))
	f.Exec(t, `UPDATE one SET `+set)
	f.Exec(t, `INSERT INTO audit SELECT * FROM one`)
	f.Exec(t, `DROP TABLE one`)
}

func TestNobodyForgesRecordsByTheMarksOfAnErasure(t *testing.T) {
	const emptied = `summary = 'Erased: this record named a key that was erased.', before = '', after = ''`
	for name, forge := range map[string]func(t *testing.T, f *storetest.Fixture, first, erasure int64){
		"a record excuses itself": func(t *testing.T, f *storetest.Fixture, first, _ int64) {
			storetest.AddEntry(t, f, storetest.NewBlock(t, "ip:198.51.100.9", time.Time{}), "")
			last := storetest.NewestRecord(t, f).ID
			rewrite(t, f, first, emptied)
			rewrite(t, f, last, fmt.Sprintf(`action = 'key.erase', summary = 'Erased a key.', before = '', after = '{"records":[{"id":%d,"digest":""},{"id":%d,"digest":""}]}'`, first, last))
		},
		"an emptied record is given another actor": func(t *testing.T, f *storetest.Fixture, first, _ int64) {
			rewrite(t, f, first, `actor_name = 'eve'`)
		},
		"the record of an erasure names one more": func(t *testing.T, f *storetest.Fixture, _, erasure int64) {
			rewrite(t, f, erasure, `after = '{"erased":[],"records":[]}'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := storetest.Open(t, storetest.Migrated.SQLite(t))
			if _, err := f.Notes.AddNote(t.Context(), storetest.Operator, wire.NoteRequest{Key: "ip:192.0.2.1", Text: "rang us"}); err != nil {
				t.Fatal(err)
			}
			first := storetest.NewestRecord(t, f).ID
			if _, err := f.Erasure.Erase(t.Context(), storetest.Operator, parsed(t, "ip:192.0.2.1"), "erased:0123456789abcdef", false); err != nil {
				t.Fatal(err)
			}
			storetest.WantIntactChain(t, f, audit.Link{})
			forge(t, f, first, storetest.NewestRecord(t, f).ID)
			if v := storetest.VerifyChain(t, f, audit.Link{}); v.Intact {
				t.Errorf("got %+v, want that something was changed", v)
			}
		})
	}
}

func TestErasingAWordErasesNothingElse(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "login", "client:*", "5/1m"), etag.Any)
		if _, err := f.Notes.AddNote(t.Context(), storetest.Operator, wire.NoteRequest{Key: "login", Text: "a key without a kind"}); err != nil {
			t.Fatal(err)
		}
		done, err := f.Erasure.Erase(t.Context(), storetest.Operator, parsed(t, "login"), "erased:0123456789abcdef", false)
		if err != nil {
			t.Fatal(err)
		}
		if len(done.Left) != 1 || !strings.Contains(done.Left[0], "without a kind") {
			t.Errorf("got left %q", done.Left)
		}
		page, err := f.Audit.FindRecords(t.Context(), audit.Filter{Object: "policy", ObjectID: "login"})
		if err != nil || len(page.Records) != 1 || !strings.Contains(string(page.Records[0].After), "login") {
			t.Errorf("the record of the policy login is %+v %v", page.Records, err)
		}
		if got := naming(t, f, "a key without a kind"); len(got) != 0 {
			t.Errorf("the note is still in %v", got)
		}
	})
}
