package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// postgresProcess is a private Postgres and its folder.
type postgresProcess struct {
	url        string // of the maintenance database
	dir        string
	programs   string // the folder of initdb and postgres
	credential *syscall.Credential
	process    *process
	release    func() // of its port
}

// newPostgres starts a server with an empty database cluster.
func newPostgres() (*postgresProcess, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	credential, err := postgresUser()
	if err != nil {
		return nil, err
	}
	template, err := clusterTemplate(programs, credential)
	if err != nil {
		return nil, err
	}
	s := &postgresProcess{programs: programs, credential: credential}
	if s.dir, err = ownedFolder("stint-postgres-", credential); err != nil {
		return nil, err
	}
	if err := copyFolder(postgresData(s.dir), template, credential); err != nil {
		s.remove()
		return nil, err
	}
	port, release, err := onFreePort(s.start)
	if err != nil {
		s.remove()
		return nil, err
	}
	s.release = release
	s.url = fmt.Sprintf("postgres://stint@127.0.0.1:%d/postgres?sslmode=disable", port)
	return s, nil
}

func (s *postgresProcess) start(port int) error {
	settings := []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(port), "unix_socket_directories=",
		"fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB",
		"dynamic_shared_memory_type=mmap", "autovacuum_naptime=10s", "log_min_messages=warning",
	}
	args := []string{"-D", postgresData(s.dir)}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	p, err := startProcess(s.dir, s.credential, filepath.Join(s.programs, "postgres"), args...)
	if err != nil {
		return err
	}
	if err := p.await(func() bool { return postgresReady(s.dir, p.pid()) }); err != nil {
		_ = p.kill()
		return err
	}
	s.process = p
	return nil
}

// restart starts a killed server again. The killed children of the old one may
// hold its memory for a moment, in which the new one refuses to start.
func (s *postgresProcess) restart(port int) error {
	deadline := time.Now().Add(waitTimeout)
	for {
		err := s.start(port)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// postgresReady reports whether the server's own note of its state says that
// pid is ready: a port would not say whose it is.
func postgresReady(dir string, pid int) bool {
	note, err := os.ReadFile(filepath.Join(postgresData(dir), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := bytes.Split(note, []byte("\n"))
	return len(lines) >= 8 && string(lines[0]) == strconv.Itoa(pid) && string(bytes.TrimSpace(lines[7])) == "ready"
}

// remove ends the server and deletes its folder.
func (s *postgresProcess) remove() {
	if s.process != nil && s.process.running() {
		// An immediate shutdown gives its shared memory back; SIGKILL does not.
		_ = s.process.resume()
		_ = syscall.Kill(s.process.pid(), syscall.SIGQUIT)
		select {
		case <-s.process.exited:
		case <-time.After(5 * time.Second):
			_ = s.process.kill()
		}
	}
	if s.release != nil {
		s.release()
	}
	os.RemoveAll(s.dir)
}

// postgresPrograms returns the folder of the newest installed Postgres.
func postgresPrograms() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil {
			return filepath.Dir(initdb), nil
		}
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb",
		"/opt/homebrew/opt/postgresql*/bin/initdb", "/usr/local/opt/postgresql*/bin/initdb",
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		found = append(found, matches...)
	}
	if len(found) == 0 {
		return "", errors.New("Postgres is not installed: run `bash scripts/setup-tests.sh`, install Postgres 14 or newer (apt-get install postgresql, brew install postgresql), or set " + DatabaseURLVariable)
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return versionIn(a) - versionIn(b) })
	return filepath.Dir(newest), nil
}

// versionIn returns the major version that a path such as
// /usr/lib/postgresql/15/bin/initdb names, 0 where it names none.
func versionIn(path string) int {
	for part := range strings.SplitSeq(path, "/") {
		digits := strings.TrimLeft(part, "abcdefghijklmnopqrstuvwxyz@-")
		if version, err := strconv.Atoi(digits); err == nil {
			return version
		}
	}
	return 0
}

// postgresUser returns whom Postgres runs as: it refuses root, so root becomes
// postgres or nobody; nil means the present user.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("Postgres does not run as root and there is neither a user postgres nor nobody: run the tests as another user")
}

// template is an initialised database cluster, which each server copies.
var template struct {
	sync.Once
	dir string
	err error
}

// clusterTemplate returns a folder that initdb has filled. It is kept in the
// user's cache folder, since initdb takes longer than most tests, and only for
// this binary where there is none.
func clusterTemplate(programs string, credential *syscall.Credential) (string, error) {
	template.Do(func() { template.dir, template.err = makeTemplate(programs, credential) })
	return template.dir, template.err
}

func makeTemplate(programs string, credential *syscall.Credential) (string, error) {
	version, err := exec.Command(filepath.Join(programs, "initdb"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s does not run: %w", filepath.Join(programs, "initdb"), err)
	}
	name := strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' || r == '\n' {
			return '-'
		}
		return r
	}, strings.TrimSpace(string(version)))
	cache, cacheErr := os.UserCacheDir()
	kept := filepath.Join(cache, "stint-tests", name)
	if cacheErr == nil {
		if _, err := os.Stat(filepath.Join(kept, "PG_VERSION")); err == nil {
			return kept, nil
		}
	}
	fresh, err := initialiseCluster(programs, credential)
	if err != nil {
		return "", err
	}
	if cacheErr != nil || keepTemplate(kept, fresh) != nil {
		AtExit(func() { os.RemoveAll(filepath.Dir(fresh)) })
		return fresh, nil //nolint:nilerr // without a place to keep it, it serves this once
	}
	os.RemoveAll(filepath.Dir(fresh))
	return kept, nil
}

// keepTemplate copies fresh to kept under another name first, so that of
// several test binaries at once each sees a whole one.
func keepTemplate(kept, fresh string) error {
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(kept), "partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	whole := filepath.Join(partial, "data")
	if err := copyFolder(whole, fresh, nil); err != nil {
		return err
	}
	if err := os.Rename(whole, kept); err != nil {
		if _, statErr := os.Stat(filepath.Join(kept, "PG_VERSION")); statErr == nil {
			return nil // another test binary was quicker
		}
		return err
	}
	return nil
}

func initialiseCluster(programs string, credential *syscall.Credential) (string, error) {
	dir, err := ownedFolder("stint-initdb-", credential)
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(programs, "initdb"), "-D", postgresData(dir), "-U", "stint",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if output, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("initdb failed: %w: %s", err, bytes.TrimSpace(output))
	}
	return postgresData(dir), nil
}

// ownedFolder makes a temporary folder that belongs to credential.
func ownedFolder(prefix string, credential *syscall.Credential) (string, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil || credential == nil {
		return dir, err
	}
	return dir, os.Chown(dir, int(credential.Uid), int(credential.Gid))
}

// copyFolder copies a database cluster to a folder that does not exist yet and
// gives it to credential.
func copyFolder(to, from string, credential *syscall.Credential) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	// Postgres refuses a folder that others can read.
	if err := os.Chmod(to, 0o700); err != nil || credential == nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(credential.Uid), int(credential.Gid))
	})
}
