package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// waitTimeout bounds how long a server may take to start or to end.
const waitTimeout = 30 * time.Second

// process is one server process of ours.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it has been waited for
}

// starter starts processes on one operating system thread that lives as long
// as the test binary: Linux sends the parent-death signal when the thread that
// forked ends, not when its process does.
var starter = struct {
	once     sync.Once
	requests chan func()
}{requests: make(chan func())}

func onStarterThread(f func()) {
	starter.once.Do(func() {
		go func() {
			runtime.LockOSThread()
			for request := range starter.requests {
				request()
			}
		}()
	})
	done := make(chan struct{})
	starter.requests <- func() { f(); close(done) }
	<-done
}

// startProcess starts program in dir, as the user that credential names, with
// its output going to dir/output.
func startProcess(dir string, credential *syscall.Credential, program string, args ...string) (*process, error) {
	output, err := os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	onStarterThread(func() { err = cmd.Start() })
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its output
		close(p.exited)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// freeze stops the process, and then its children: Postgres answers from them,
// each in a process group of its own. It returns the children, and none is
// missing, since a stopped process forks no more.
func (p *process) freeze() ([]int, error) {
	if !p.running() {
		return nil, errors.New("it is not running")
	}
	if err := syscall.Kill(p.pid(), syscall.SIGSTOP); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(waitTimeout)
	for ; !IsStopped(p.pid()); time.Sleep(time.Millisecond) {
		if !p.running() {
			return nil, errors.New("it has ended")
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("process %d still runs %s after SIGSTOP", p.pid(), waitTimeout)
		}
	}
	children := childrenOf(p.pid())
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGSTOP) // a child may have ended by itself
	}
	for _, child := range children {
		for ; !IsStopped(child) && !hasEnded(child); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("process %d, a child of %d, still runs after SIGSTOP", child, p.pid())
			}
		}
	}
	return children, nil
}

// resume ends what freeze began.
func (p *process) resume() error {
	if !p.running() {
		return errors.New("it is not running")
	}
	for _, child := range childrenOf(p.pid()) {
		_ = syscall.Kill(child, syscall.SIGCONT)
	}
	return syscall.Kill(p.pid(), syscall.SIGCONT)
}

// kill ends the process and its children at once and waits for it. It freezes
// them first: a child of Postgres that was forked after the list was read may
// wait for ever for a lock that a killed one has held, and no new server starts
// until it has ended.
func (p *process) kill() error {
	if !p.running() {
		return nil
	}
	children, err := p.freeze()
	switch {
	case !p.running():
		return nil
	case err != nil:
		return err
	}
	for _, pid := range append(children, p.pid()) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(waitTimeout):
		return fmt.Errorf("process %d is still there %s after SIGKILL", p.pid(), waitTimeout)
	}
}

// await polls ready until it returns true. It fails when the process ends
// first, or after waitTimeout, with what the process last wrote.
func (p *process) await(ready func() bool) error {
	deadline := time.Now().Add(waitTimeout)
	for !ready() {
		if !p.running() {
			return fmt.Errorf("%s ended before it was ready: %s", p.cmd.Path, p.lastOutput())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not ready after %s: %s", p.cmd.Path, waitTimeout, p.lastOutput())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func (p *process) lastOutput() []byte {
	const most = 800
	output, err := os.ReadFile(filepath.Join(p.cmd.Dir, "output"))
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(output[max(0, len(output)-most):])
}

// onFreePort calls start with free ports until it succeeds or has failed five times, and returns
// the last port. No other process is given it until release, also while its server is restarted.
func onFreePort(start func(port int) error) (port int, release func(), err error) {
	for range 5 {
		if port, release, err = holdPort(); err != nil {
			return 0, nil, err
		}
		if err = start(port); err == nil {
			return port, release, nil
		}
		release()
	}
	return 0, nil, err
}
