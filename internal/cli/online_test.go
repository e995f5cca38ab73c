package cli

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	server "github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/cli/console"
)

// adminToken is the bootstrap token of the servers that scripts talk to.
const adminToken = "c110adca9f5c1b7d2830694ef1a5c3d7"

func TestOnline(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "online"), Setup: endQuickly,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "stint": startStint, "waitfor": waitfor, "shows": shows, "lastcell": lastCell, "firstcell": firstCell,
		},
	})
}

// startStint starts an embedded node on free ports, with its data in the
// script's folder, and names it in the environment: stint
func startStint(ts *testscript.TestScript, _ bool, args []string) {
	settings, err := server.Load(append([]string{
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", ts.MkAbs("data"),
	}, args...), []string{"STINT_ADMIN_TOKEN=" + adminToken, "STINT_PRESET=api"})
	ts.Check(err)
	node, err := server.New(context.Background(), settings, io.Discard, io.Discard)
	ts.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	ts.Defer(func() {
		stop()
		ts.Check(<-ended)
	})
	ts.Setenv(console.EnvURL, "http://"+node.AdminAddr().String())
	ts.Setenv(console.EnvCheckURL, "http://"+node.CheckAddr().String())
	ts.Setenv(console.EnvToken, adminToken)
}

// waitTimeout bounds how long a script waits for something that must happen.
const waitTimeout = time.Minute

// waitfor repeats a command until it succeeds: waitfor COMMAND ARG...
func waitfor(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(100 * time.Millisecond) {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waitfor: the command never succeeded: %v", err)
		}
	}
}

// shows repeats a command until its output holds a text: shows TEXT COMMAND ARG...
func shows(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err := ts.Exec(args[1], args[2:]...); err == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
	}
	ts.Fatalf("shows: the output never contained %q", args[0])
}

// lastCell keeps the last cell of the CSV that the last command printed:
// lastcell NAME
func lastCell(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.TrimSpace(ts.ReadFile("stdout"))
	ts.Setenv(args[0], text[strings.LastIndexAny(text, ",\n")+1:])
}

// firstCell keeps the first cell of the first row below the head of the CSV
// that the last command printed: firstcell NAME
func firstCell(ts *testscript.TestScript, _ bool, args []string) {
	_, rows, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	cell, _, _ := strings.Cut(rows, ",")
	ts.Setenv(args[0], cell)
}
