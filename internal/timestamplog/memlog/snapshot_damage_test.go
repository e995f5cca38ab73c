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

func TestSnapshotWithAnyDamagedByteLoadsNothing(t *testing.T) {
	whole := saved(t)
	for at := 0; at < len(whole); at += 1 + len(whole)/500 {
		damaged := slices.Clone(whole)
		damaged[at] ^= 0x20
		wantRejected(t, damaged, fmt.Sprintf("byte %d of %d changed", at, len(whole)), "")
	}
}

func TestTruncatedSnapshotLoadsNothing(t *testing.T) {
	whole := saved(t)
	for length := 0; length < len(whole); length += 1 + len(whole)/500 {
		wantRejected(t, whole[:length], fmt.Sprintf("%d of %d bytes", length, len(whole)), "cut off")
	}
	wantRejected(t, whole[:len(whole)-8], "without the number at its end", "cut off at its end")
}

func TestLoadRejectsFilesThatAreNoSnapshots(t *testing.T) {
	whole := saved(t)
	version := slices.Clone(whole)
	version[len("stint timestamp logs\n")] = 9
	fewer := slices.Clone(whole)
	fewer[len(fewer)-8]--
	cases := []struct {
		name, reason string
		content      []byte
	}{
		{"a text", "it is not a snapshot", []byte(strings.Repeat("something else\n", 10))},
		{"an empty file", "cut off", nil},
		{"a later format", "the format 9; this program reads 2", version},
		{"a wrong number of logs", "it says that it holds", fewer},
		{"bytes after the end", "something follows its end", append(slices.Clone(whole), 0)},
		{"a key that is too long", "chunk 1 has a key or an ID that is too large", longKey()},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { wantRejected(t, c.content, c.name, c.reason) })
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
