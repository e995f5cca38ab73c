package memlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

// wantRejected loads a snapshot that must be rejected without any effect.
func wantRejected(t *testing.T, snapshot []byte, what, reason string) {
	t.Helper()
	log := memlog.New(memlog.Options{Now: logtest.NewClock().Now})
	err := log.Load(bytes.NewReader(snapshot))
	if !errors.Is(err, memlog.ErrSnapshot) || !strings.Contains(err.Error(), reason) {
		t.Fatalf("Load, %s: got %v, want an error with %q", what, err, reason)
	}
	if n := log.Len(); n > 0 {
		t.Fatalf("Load, %s: %d logs were loaded, want none", what, n)
	}
}

func saved(t *testing.T) []byte {
	t.Helper()
	log, _ := filled(t, logtest.NewClock())
	fillCounters(t, log)
	var snapshot bytes.Buffer
	if err := log.Save(&snapshot); err != nil {
		t.Fatal(err)
	}
	return snapshot.Bytes()
}

// wantPart loads a damaged snapshot and returns how many records are lost, -1 if Load does not
// know. Every log that was loaded must be as it was, and the loaded and the lost ones must be all.
func wantPart(t *testing.T, clock *logtest.Clock, snapshot []byte, what string, whole *memlog.Log, keys map[string]*rules.Policy, records int) (loaded, lost int) {
	t.Helper()
	log := memlog.New(memlog.Options{Now: clock.Now})
	var damaged *memlog.DamagedSnapshot
	if err := log.Load(bytes.NewReader(snapshot)); !errors.As(err, &damaged) || !errors.Is(err, memlog.ErrSnapshot) {
		t.Fatalf("Load, %s: got %v, want a damaged snapshot", what, err)
	}
	if damaged.Lost >= 0 && damaged.Loaded+damaged.Lost != records {
		t.Fatalf("Load, %s: %v, want %d in all", what, damaged, records)
	}
	for key, p := range keys {
		if got := timesOf(t, log, p, key); len(got) > 0 && !slices.Equal(got, timesOf(t, whole, p, key)) {
			t.Fatalf("Load, %s: the log of %q differs", what, key)
		}
	}
	return damaged.Loaded, damaged.Lost
}

// recordsIn returns the number of records that the end of a snapshot says.
func recordsIn(snapshot []byte) int {
	return int(binary.LittleEndian.Uint64(snapshot[len(snapshot)-8:]))
}

func TestSnapshotWithAnyDamagedByteLoadsAllOtherChunks(t *testing.T) {
	clock := logtest.NewClock()
	log, keys := filled(t, clock)
	var out bytes.Buffer
	if err := log.Save(&out); err != nil {
		t.Fatal(err)
	}
	whole, header := out.Bytes(), len("stint timestamp logs\n")+4
	records := recordsIn(whole)
	for at := 0; at < len(whole); at += 1 + len(whole)/200 {
		damaged := slices.Clone(whole)
		damaged[at] ^= 0x20
		what := fmt.Sprintf("byte %d of %d changed", at, len(whole))
		if at < header {
			wantRejected(t, damaged, what, "")
			continue
		}
		// The chunks are those of the shards, of which there are many.
		if loaded, lost := wantPart(t, clock, damaged, what, log, keys, records); lost != 0 && loaded < records/2 {
			t.Fatalf("%s: only %d of %d records were loaded", what, loaded, records)
		}
	}
}

func TestSnapshotLosesOnlyTheChunksThatAreDamaged(t *testing.T) {
	clock := logtest.NewClock()
	log, keys := filled(t, clock)
	var out bytes.Buffer
	if err := log.Save(&out); err != nil {
		t.Fatal(err)
	}
	whole, at := out.Bytes(), len("stint timestamp logs\n")+4
	size := int(binary.LittleEndian.Uint32(whole[at:]))
	for name, change := range map[string]func([]byte){
		"the content":        func(s []byte) { s[at+4] ^= 1 },
		"the checksum":       func(s []byte) { s[at+4+size] ^= 1 },
		"a length too small": func(s []byte) { binary.LittleEndian.PutUint32(s[at:], uint32(size-1)) },
		"a length too large": func(s []byte) { binary.LittleEndian.PutUint32(s[at:], 1<<31) },
		"a longer length":    func(s []byte) { binary.LittleEndian.PutUint32(s[at:], uint32(size+1000)) },
	} {
		t.Run(name, func(t *testing.T) {
			damaged := slices.Clone(whole)
			change(damaged)
			if loaded, lost := wantPart(t, clock, damaged, name, log, keys, recordsIn(whole)); lost <= 0 || lost > loaded {
				t.Errorf("%d records were loaded and %d are lost", loaded, lost)
			}
		})
	}
}

func TestTruncatedSnapshotLoadsWhatIsWhole(t *testing.T) {
	clock := logtest.NewClock()
	log, keys := filled(t, clock)
	var out bytes.Buffer
	if err := log.Save(&out); err != nil {
		t.Fatal(err)
	}
	whole, header, before := out.Bytes(), len("stint timestamp logs\n")+4, 0
	for length := 0; length < len(whole); length += 1 + len(whole)/100 {
		what := fmt.Sprintf("%d of %d bytes", length, len(whole))
		if length < header {
			wantRejected(t, whole[:length], what, "cut off")
			continue
		}
		loaded, lost := wantPart(t, clock, whole[:length], what, log, keys, recordsIn(whole))
		if lost != -1 || loaded < before {
			t.Fatalf("%s: %d were loaded, %d are lost, and a shorter part had %d", what, loaded, lost, before)
		}
		before = loaded
	}
	if loaded, _ := wantPart(t, clock, whole[:len(whole)-8], "without the number at its end", log, keys, 0); loaded != recordsIn(whole) {
		t.Errorf("without the number at its end: %d were loaded", loaded)
	}
}

func TestLoadRejectsFilesThatAreNoSnapshots(t *testing.T) {
	whole := saved(t)
	version := slices.Clone(whole)
	version[len("stint timestamp logs\n")] = 9
	cases := []struct {
		name, reason string
		content      []byte
	}{
		{"a text", "it is not a snapshot", []byte(strings.Repeat("something else\n", 10))},
		{"an empty file", "cut off", nil},
		{"a later format", "the format 9; this program reads 2", version},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { wantRejected(t, c.content, c.name, c.reason) })
	}
}

func TestLoadSaysWhatIsWrongWithASnapshotThatItLoads(t *testing.T) {
	whole := saved(t)
	fewer := slices.Clone(whole)
	fewer[len(fewer)-8]--
	for name, c := range map[string]struct {
		reason  string
		content []byte
		loaded  int
	}{
		"a wrong number of logs": {"it says that it holds", fewer, recordsIn(whole)},
		"bytes after the end":    {"something follows its end", append(slices.Clone(whole), 0), recordsIn(whole)},
		"a key that is too long": {"chunk 1 has a key or an ID that is too large", longKey(), 0},
	} {
		var damaged *memlog.DamagedSnapshot
		err := memlog.New(memlog.Options{Now: logtest.NewClock().Now}).Load(bytes.NewReader(c.content))
		if !errors.As(err, &damaged) || damaged.Loaded != c.loaded || damaged.Lost != -1 || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: got %v, want %q and %d loaded", name, err, c.reason, c.loaded)
		}
	}
}

// longKey returns the beginning of a snapshot whose first log has a key of more bytes than follow.
func longKey() []byte {
	chunk := binary.AppendUvarint([]byte{0, 0, 0}, 1<<20) // a log, its policy and its generation
	snapshot := binary.LittleEndian.AppendUint32([]byte("stint timestamp logs\n"), 3)
	at := len(snapshot)
	snapshot = append(binary.LittleEndian.AppendUint32(snapshot, uint32(len(chunk))), chunk...)
	return binary.LittleEndian.AppendUint32(snapshot, crc32.Checksum(snapshot[at:], crc32.MakeTable(crc32.Castagnoli)))
}

func TestLoadReturnsReadErrors(t *testing.T) {
	broken := errors.New("the disk is broken")
	err := memlog.New(memlog.Options{}).Load(iotest.ErrReader(broken))
	if !errors.Is(err, broken) || errors.Is(err, memlog.ErrSnapshot) {
		t.Errorf("the error is %v", err)
	}
}

// full is a writer that fails after a number of bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestSaveReturnsWriteErrors(t *testing.T) {
	log, _ := filled(t, logtest.NewClock())
	for _, room := range []int{0, 10, 5000, 20_000} {
		if err := log.Save(&full{left: room}); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("with room for %d bytes the error is %v", room, err)
		}
	}
}

func TestFailedSaveLeavesTheOldFile(t *testing.T) {
	clock := logtest.NewClock()
	log, _ := filled(t, clock)
	directory := t.TempDir()
	// The name is as long as possible, so that not even root can create a temporary file with a
	// longer one.
	path := filepath.Join(directory, strings.Repeat("s", 255))
	short := filepath.Join(directory, "logs.snapshot")
	if err := errors.Join(log.SaveFile(short), os.Rename(short, path)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.SaveFile(path); err == nil {
		t.Fatal("the save did not fail")
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the old file has changed: %v", err)
	}
}
