package console_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/internal/cli/console"
)

func TestOpenReadsFilesAndStandardInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	text := strings.Repeat("0123456789", 20<<10)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{path, "-"} {
		stdin, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(writer, text)
			writer.Close()
		}()
		con := &console.Console{System: console.System{Stdin: stdin}, Interrupted: make(chan struct{})}
		in, err := con.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Keep(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := io.ReadAll(in); err != nil || string(got) != text {
				t.Errorf("%s: read %d bytes, %v, want %d", from, len(got), err, len(text))
			}
			if err := in.Rewind(); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(in.Close(), stdin.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefusesAFolder(t *testing.T) {
	con := &console.Console{Interrupted: make(chan struct{})}
	_, err := con.Open(t.TempDir())
	var exit *console.ExitError
	if !errors.As(err, &exit) || exit.Code != console.Usage || !strings.HasSuffix(err.Error(), "is a folder, not a file") {
		t.Errorf("got %v", err)
	}
}

// A read of what is silent must not outlast the command.
func TestInterruptedCommandWaitsForNoInput(t *testing.T) {
	stdin, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(con *console.Console) error{
		"a named pipe": func(con *console.Console) error {
			_, err := con.Open(pipe)
			return err
		},
		"standard input": func(con *console.Console) error {
			in, err := con.Open("-")
			if err != nil {
				return err
			}
			_, err = in.Read(make([]byte, 10))
			return err
		},
		"a secret": func(con *console.Console) error {
			_, err := con.Secret("Password")
			return err
		},
	} {
		interrupted, ended := make(chan struct{}), make(chan error)
		con := &console.Console{System: console.System{Stdin: stdin}, Interrupted: interrupted}
		go func() { ended <- read(con) }()
		close(interrupted)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestContextsFileIsBounded(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, ".config", "stint", "contexts.yaml")
	if err := os.WriteFile(path, []byte(contexts+"#"+strings.Repeat("a", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	con := &console.Console{System: console.System{Getenv: func(name string) string { return map[string]string{"HOME": dir}[name] }}}
	if _, err := con.ReadContexts(); err == nil || !strings.HasSuffix(err.Error(), "is larger than 1 MiB") {
		t.Errorf("got %v", err)
	}
}
