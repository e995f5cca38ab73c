package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

const reliabilityHead = `# Reliability

What happens to Stint when what it depends on fails. This page is written by ` + "`make faults`" + `, which does all of it to real nodes (two on Redis and Postgres; one on
SQLite in the rows about it), while callers ask all of them about the same keys. It is written only when every promise held.

Each answer is kept. A key of ` + "`5/1h`" + ` that was asked about more often must have been allowed exactly five times, or at most five where some of its
checks were degraded; of ` + "`10/1s`" + ` no window may hold more; a blocked key is never let through; and at the end the log of every key is compared with
what was answered.

- **Degraded** are answers that a policy's ` + "`on_failure`" + ` gave and that say so.
- **Unanswered** are requests to a node that was killed or ended.
- **Lost** are charges of checks that were allowed and are not in the log afterwards.
- **Charged** are those in the log of checks whose answer did not come from it: their call was carried out after its time was over.
- **Longest gap** is the longest time in which a node gave no answer, on the machine that wrote this page. It is bounded by ` + "`--check-deadline`" + `, which is
  3 s in the rows of a Cluster.

Four faults have tests of their own instead of a row: a migration that is killed before each of its statements
(` + "`go test ./internal/sqlstore/db -run KilledAtEveryStatement`" + `);
the clock of a log in memory that steps, which the contract suite of the logs injects (` + "`go test ./internal/timestamplog/memlog`" + `); the pages while
Postgres is stopped or killed (` + "`go test ./internal/adminui -run PagesWithoutDatabase`" + `); and operators whose keys can no longer be fetched, which count for a week
(` + "`go test ./internal/bots -run KeysThatCannotBeFetched`" + `).

| What fails | What is done | What is promised | Answers | Degraded | Unanswered | Lost | Charged | Longest gap |
|---|---|---|---|---|---|---|---|---|
`

func writeReliability(t *testing.T, path string, table []fault, outcomes []*outcome) {
	t.Helper()
	var b strings.Builder
	b.WriteString(reliabilityHead)
	for i, f := range table {
		o := outcomes[i]
		if o == nil {
			t.Fatalf("%s was not run: use -faults, and no -run of single rows", f.name)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %s |\n", f.name, f.done, f.promise,
			o.answers, o.degraded, o.unanswered, o.lost, o.charged, o.gap.Round(time.Millisecond))
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
