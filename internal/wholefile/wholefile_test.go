package wholefile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/internal/wholefile"
)

func TestReadReturnsAFileUpToItsBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	want := bytes.Repeat([]byte("a"), 2<<10)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := wholefile.Read(path, len(want)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	for limit, bound := range map[int]string{len(want) - 1: "1 KiB", 10: "10 bytes"} {
		if _, err := wholefile.Read(path, limit); err == nil || err.Error() != path+" is larger than "+bound {
			t.Errorf("with a bound of %d bytes: got %v", limit, err)
		}
	}
}

func TestReadEndsOnADeviceWithoutEnd(t *testing.T) {
	if _, err := wholefile.Read("/dev/zero", wholefile.MaxText); err == nil || err.Error() != "/dev/zero is larger than 1 MiB" {
		t.Errorf("got %v", err)
	}
}

func TestReadRefusesAFolder(t *testing.T) {
	if text, err := wholefile.Read(t.TempDir(), 10); err == nil {
		t.Errorf("got %q", text)
	}
}

func TestReadRegularRefusesWhatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{t.TempDir(), "/dev/zero", pipe} {
		if _, err := wholefile.ReadRegular(path, 10); err == nil || err.Error() != path+" is not a regular file" {
			t.Errorf("%s: got %v", path, err)
		}
	}
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := wholefile.ReadRegular(path, 10); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
}
