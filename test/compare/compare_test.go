package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

const document = "../../docs/ALGORITHMS.md"

// The decisions in the document are those of the algorithms.
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
				t.Errorf("docs/ALGORITHMS.md does not name `%s`", name)
			}
		}
	}
}

// Every algorithm gets a row, with a value in every cell.
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
				t.Errorf("a cell of the row has no value: %v", row)
			}
		}
	}
}

// A document without a place for the table is refused.
func TestReplaceInFailsWithoutAPlaceForTheTable(t *testing.T) {
	if _, err := (table{name: "decisions"}).replaceIn([]byte("# Algorithms\n")); err == nil {
		t.Fatal("replaceIn of a document without a place for the table: got no error")
	}
}
