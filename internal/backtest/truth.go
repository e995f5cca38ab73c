package backtest

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rowfile"
)

// Truth labels keys as attacking or benign. Keys that it does not name are benign.
type Truth struct {
	keys map[string]truth
	// attackers are the labels of keys that attack.
	attackers map[string]bool
}

// isAttackers reports whether a key with a label attacks.
func (t *Truth) isAttackers(label string) bool { return t.attackers[label] }

type truth struct {
	label  string
	attack time.Time // when the attack begins, zero for a benign key
}

// maxLabel is the longest label, in bytes; maxLabels is how many there may be.
const (
	maxLabel  = 64
	maxLabels = 200
)

// unlisted is the label of the keys that a truth does not name.
const unlisted = "not listed"

// NewTruth returns a truth that names no key.
func NewTruth() *Truth { return &Truth{keys: map[string]truth{}, attackers: map[string]bool{}} }

// Add names one key. A zero attack means that it is benign. Of a key that is named again
// the earliest attack counts; another label is an error.
func (t *Truth) Add(key keys.Key, label string, attack time.Time) error {
	known, found := t.keys[key.String()]
	if found && known.label != label {
		return fmt.Errorf("the key %s is both %q and %q", key, known.label, label)
	}
	if found && (attack.IsZero() || !known.attack.IsZero() && known.attack.Before(attack)) {
		attack = known.attack
	}
	t.keys[key.String()] = truth{label: label, attack: attack}
	if !attack.IsZero() {
		t.attackers[label] = true
	}
	return nil
}

// truthLine is one line as it is written.
type truthLine struct {
	Key    string `json:"key"`
	Label  string `json:"label"`
	Attack string `json:"first_attack"`
}

// ReadTruth reads CSV with a line of the column names key, label and first_attack, or JSON
// lines with these fields. A key is as in the API, or an address alone. The time is as in
// RFC 3339 or in Unix seconds; it is missing or empty for a benign key. name is what errors
// call the file.
func ReadTruth(in io.Reader, name string, parser keys.Parser) (*Truth, error) {
	reader := rowfile.NewReader(in)
	next := readTruthCSV
	if first, err := reader.Peek(1); err == nil && first[0] == '{' {
		next = readTruthJSON
	}
	t, labels := NewTruth(), map[string]bool{}
	err := next(reader, func(line int, l truthLine) error {
		err := t.add(l, parser)
		if err == nil {
			if labels[l.Label] = true; len(labels) > maxLabels {
				err = fmt.Errorf("has more than %d labels", maxLabels)
			}
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.keys) == 0 {
		return nil, fmt.Errorf("%s names no key", name)
	}
	return t, nil
}

func (t *Truth) add(l truthLine, parser keys.Parser) error {
	text := strings.TrimSpace(l.Key)
	key, err := keys.Reading{Parser: parser}.Key(text)
	if err != nil {
		return fmt.Errorf("the key %s: %w", strconv.Quote(text), err)
	}
	if l.Label == "" || len(l.Label) > maxLabel {
		return fmt.Errorf("the label must be 1 to %d bytes", maxLabel)
	}
	attack, err := attackTime(strings.TrimSpace(l.Attack))
	if err != nil {
		return err
	}
	return t.Add(key, l.Label, attack)
}

func attackTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 && seconds < 1<<40 {
		return time.Unix(seconds, 0), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("the time %s must be as 2026-01-31T12:00:00Z or in Unix seconds", strconv.Quote(text))
	}
	return at, nil
}

func readTruthCSV(in *rowfile.Reader, add func(int, truthLine) error) error {
	rows := csv.NewReader(in)
	names, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	column := func(name string) int {
		return slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(strings.TrimSpace(n), name) })
	}
	key, label, attack := column("key"), column("label"), column("first_attack")
	if key < 0 || label < 0 || attack < 0 {
		return errors.New("the truth needs the columns key, label and first_attack, named in its first line")
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		in.NextRow()
		line, _ := rows.FieldPos(0)
		if err := add(line, truthLine{row[key], row[label], row[attack]}); err != nil {
			return err
		}
	}
}

func readTruthJSON(in *rowfile.Reader, add func(int, truthLine) error) error {
	scanner := bufio.NewScanner(in)
	for line := 1; scanner.Scan(); line++ {
		in.NextRow()
		if len(strings.TrimSpace(scanner.Text())) == 0 {
			continue
		}
		var l truthLine
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return fmt.Errorf("line %d of the truth: %w", line, err)
		}
		if err := add(line, l); err != nil {
			return err
		}
	}
	return scanner.Err()
}
