package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PgBouncer starts a pgbouncer before the server of a database URL until the test ends, and returns
// the URL through it. mode is its pool_mode.
func PgBouncer(t testing.TB, databaseURL, mode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatal("pgbouncer is missing: run scripts/setup-tests.sh, or install pgbouncer")
	}
	credential, err := postgresUser() // it refuses root too
	if err != nil {
		t.Fatal(err)
	}
	dir, err := ownedFolder("stint-pgbouncer-", credential)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	target := mustParse(t, databaseURL)
	var p *process
	port, release, err := onFreePort(func(port int) error {
		settings := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\nunix_socket_dir=\nauth_type=any\npool_mode=%s\n",
			target.Hostname(), target.Port(), target.User.Username(), port, mode)
		file := filepath.Join(dir, "pgbouncer.ini")
		if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
			return err
		}
		var err error
		if p, err = startProcess(dir, credential, program, file); err != nil {
			return err
		}
		through := *target
		through.Host = fmt.Sprintf("127.0.0.1:%d", port)
		if err := p.await(func() bool { return execute(through.String(), "SELECT 1") == nil }); err != nil {
			_ = p.kill()
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatalf("pgbouncer did not start: %v", err)
	}
	t.Cleanup(release)
	t.Cleanup(func() { _ = p.kill() })
	target.Host = fmt.Sprintf("127.0.0.1:%d", port)
	return target.String()
}
