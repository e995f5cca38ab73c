package upgrade_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

func TestSharedDataIsBackedUpAndRestored(t *testing.T) {
	cache, database := servers.DedicatedRedis(t), servers.Postgres(t)
	n := start(t, newProgram(t), "--redis-url", cache.URL, "--database-url", database.URL)
	f := fixture{MadeAt: time.Now().UnixMilli()}
	token := n.fill()
	do[wire.Profile](n, http.MethodPut, wire.PathKeys+"/token:customer", `{"plan":"gold","labels":["region=eu","vip"],"note":"Contract 17"}`)
	do[wire.Profile](n, http.MethodPut, wire.PathLimits+"/token:customer", `{"rules":["5/s"],"reason":"launch","expires_in":"30d"}`)

	folder := filepath.Join(t.TempDir(), "backups")
	command := exec.Command("../../deploy/backup/stint-backup", folder)
	command.Env = append(os.Environ(), "STINT_REDIS_URL="+cache.URL, "STINT_DATABASE_URL="+database.URL)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	backup := string(bytes.TrimSpace(output))
	for _, name := range []string{"redis.rdb", "postgres.dump", "SHA256SUMS"} {
		info, err := os.Stat(filepath.Join(backup, name))
		if err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, %v", name, info, err)
		}
	}
	verify := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	verify.Dir = backup
	if output, err := verify.CombinedOutput(); err != nil || strings.Count(string(output), ": OK") != 2 {
		t.Errorf("sha256sum --check: %v\n%s", err, output)
	}
	n.mustAsk(`{"key":"token:later"}`)
	n.end()

	snapshot, err := os.ReadFile(filepath.Join(backup, "redis.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	restored := start(t, newProgram(t), "--redis-url", redisFrom(t, snapshot, time.Now()).URL,
		"--database-url", postgresFrom(t, filepath.Join(backup, "postgres.dump")).URL, "--check-deadline", "10s")
	restored.wantKept(f, token)
	restored.wantLimits()
	kept := do[wire.Profile](restored, http.MethodGet, wire.PathKeys+"/token:customer", "")
	if kept.Plan != "gold" || strings.Join(kept.Labels, " ") != "region=eu vip" || kept.Note != "Contract 17" || kept.Limit == nil || !kept.Limit.Active {
		t.Errorf("the profile after the restore is %+v", kept)
	}

	// A failed backup leaves no folder.
	cache.Kill()
	command = exec.Command("../../deploy/backup/stint-backup", folder)
	command.Env = append(os.Environ(), "STINT_REDIS_URL="+cache.URL, "STINT_DATABASE_URL="+database.URL)
	if output, err := command.CombinedOutput(); err == nil {
		t.Errorf("a backup without Redis: got no error: %s", output)
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) != 1 {
		t.Errorf("after a failed backup the folder has %q, %v, want the first backup only", left, err)
	}
}
