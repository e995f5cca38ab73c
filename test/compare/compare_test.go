package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

const document = "../../docs/ALGORITHMS.md"

// What the document says of decisions is what the algorithms decide.
func TestAlgorithmsDocumentHasCurrentDecisions(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	current, err := decisions().replaceIn(text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, current) {
		t.Fatal("docs/ALGORITHMS.md has an old table of decisions: run `go run ./test/compare -write docs/ALGORITHMS.md`")
	}
}

// The document names each algorithm and each option.
func TestAlgorithmsDocumentNamesEveryAlgorithmAndOption(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range candidates() {
		for _, name := range append(c.Options, c.Name) {
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/ALGORITHMS.md says nothing of `%s`", name)
			}
		}
	}
}

// What is measured is measured, for every algorithm, and leaves nothing behind.
func TestMeasure(t *testing.T) {
	server := servers.DedicatedRedis(t)
	measured, err := measure(t.Context(), server.URL, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(measured.rows) != len(candidates())+1 {
		t.Fatalf("%d rows for %d algorithms", len(measured.rows), len(candidates()))
	}
	for _, row := range measured.rows[1:] {
		for _, cell := range row[1:] {
			if cell == "" || cell == "0" || cell == "0.0" {
				t.Errorf("nothing was measured: %v", row)
			}
		}
	}
}

// A document without a place for a table is refused, not written without it.
func TestReplaceInFailsWithoutAPlaceForTheTable(t *testing.T) {
	if _, err := (table{name: "decisions"}).replaceIn([]byte("# Algorithms\n")); err == nil {
		t.Fatal("there is no place for the table, and no error")
	}
}
