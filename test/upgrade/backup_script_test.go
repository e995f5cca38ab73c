package upgrade_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/test/servers"
)

// backupScript returns the command of the script, with programs that write their arguments into
// the file that it returns before they do what they do.
func backupScript(t *testing.T, folder, redisURL, databaseURL string) (script *exec.Cmd, arguments string) {
	t.Helper()
	programs := t.TempDir()
	arguments = filepath.Join(t.TempDir(), "arguments")
	for _, name := range []string{"redis-cli", "pg_dump"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		text := "#!/bin/sh\necho " + name + ` "$@" >>` + arguments + "\nexec " + path + ` "$@"` + "\n"
		if err := os.WriteFile(filepath.Join(programs, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script = exec.Command("../../deploy/backup/stint-backup", folder)
	script.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "STINT_REDIS_URL="+redisURL, "STINT_DATABASE_URL="+databaseURL)
	return script, arguments
}

// entriesOf returns the names in a folder, hidden ones too.
func entriesOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestBackupScriptShowsNoPasswordToOtherUsers(t *testing.T) {
	cache, database := servers.DedicatedRedis(t), servers.Postgres(t)
	// What URLs have to encode, and what shells and awk would read.
	const password, encoded = `p@ss:/?#%41é\n'" *$HOME&`, `p%40ss%3A%2F%3F%23%2541%C3%A9%5Cn%27%22%20*$HOME%26`
	client := redis.NewClient(&redis.Options{Addr: cache.Addr})
	defer client.Close()
	if err := client.Do(t.Context(), "ACL", "SETUSER", "back-up", "on", ">"+password, "-@all", "+sync", "+replconf").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), "ACL", "SETUSER", "default", "off").Err(); err != nil {
		t.Fatal(err)
	}
	scheme, rest, _ := strings.Cut(database.URL, "://")
	user, rest, _ := strings.Cut(rest, "@")
	user, _, _ = strings.Cut(user, ":")
	plain, options, _ := strings.Cut(scheme+"://"+user+"@"+rest, "?")
	inQuery := strings.ReplaceAll(encoded, "&", "%26")
	for databaseURL, shown := range map[string]string{ // as nodes read them
		scheme + "://" + user + ":" + encoded + "@" + rest:               database.URL,
		plain + "?" + options + "&password=" + inQuery:                   database.URL,
		plain + "?password=" + inQuery + "&" + options:                   database.URL,
		plain + "?connect_timeout=9&password=" + inQuery + "&" + options: plain + "?connect_timeout=9&" + options,
	} {
		folder := filepath.Join(t.TempDir(), "backups")
		script, arguments := backupScript(t, folder, "redis://back-up:"+encoded+"@"+cache.Addr+"/0", databaseURL)
		if output, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		text, err := os.ReadFile(arguments)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text); strings.Contains(got, "p@ss") || strings.Contains(got, "p%40ss") ||
			!strings.Contains(got, "redis-cli -u redis://"+cache.Addr+"/0 --user back-up --rdb") || !strings.Contains(got, "--dbname "+shown+"\n") {
			t.Errorf("other users see %s", got)
		}
		if names := entriesOf(t, folder); len(names) != 1 {
			t.Errorf("the folder has %q", names)
		}
	}
}

func TestBackupScriptReadsRedisFromASocket(t *testing.T) {
	socket, err := os.MkdirTemp("", "socket") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(socket) })
	socket = filepath.Join(socket, "a redis.sock")
	cache, database := servers.DedicatedRedis(t, "--unixsocket", socket), servers.Postgres(t)
	client := redis.NewClient(&redis.Options{Addr: cache.Addr})
	defer client.Close()
	if err := client.Do(t.Context(), "ACL", "SETUSER", "back-up", "on", ">p@ss", "-@all", "+sync", "+replconf").Err(); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	script, _ := backupScript(t, folder, "unix://back-up:p%40ss@"+strings.ReplaceAll(socket, " ", "%20")+"?db=3", database.URL)
	output, err := script.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(output)), "redis.rdb")); err != nil || !strings.HasPrefix(string(text), "REDIS") {
		t.Errorf("the snapshot is %.20q, %v", text, err)
	}
}

func TestBackupScriptReadsRedisOverTLS(t *testing.T) {
	secured := filepath.Join(t.TempDir(), "tls & files")
	if err := os.Mkdir(secured, 0o700); err != nil {
		t.Fatal(err)
	}
	cert, key := servers.Certificate(t, secured)
	address := servers.FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	servers.DedicatedRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	database, folder := servers.Postgres(t), t.TempDir()
	options := url.Values{"sslrootcert": {cert}, "sslcert": {cert}, "sslkey": {key}}
	script, _ := backupScript(t, folder, "rediss://"+address+"/0?"+options.Encode(), database.URL)
	if output, err := script.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	options.Del("sslrootcert")
	for _, skipped := range []struct {
		value     string
		isSkipped bool
	}{{"", false}, {"0", false}, {"false", false}, {"1", true}, {"true", true}} { // as nodes read it
		options.Set("skip_verify", skipped.value)
		folder := t.TempDir()
		script, _ = backupScript(t, folder, "rediss://"+address+"/0?"+options.Encode(), database.URL)
		output, err := script.CombinedOutput()
		if skipped.isSkipped && err != nil {
			t.Errorf("skip_verify=%s: %v: %s", skipped.value, err, output)
		}
		if !skipped.isSkipped && (err == nil || len(entriesOf(t, folder)) > 0) {
			t.Errorf("skip_verify=%s: a certificate that nobody has signed is accepted: %s", skipped.value, output)
		}
	}
	if names := entriesOf(t, folder); len(names) != 1 {
		t.Errorf("the folder has %q", names)
	}
}

func TestBackupScriptSaysWhatItCannotReach(t *testing.T) {
	for url, want := range map[string]string{
		"redis+sentinel://s1?master_name=m": "sentinel get-master-addr-by-name",
		"rediss+cluster://c1?addr=c2":       "for each primary",
		"http://redis":                      "must begin with redis://, rediss:// or unix://",
		"rediss://redis?skip_verify=yes":    "skip_verify; it is true, 1, false or 0",
	} {
		folder := t.TempDir()
		script, arguments := backupScript(t, folder, url, "postgres://db/stint")
		output, _ := script.CombinedOutput()
		if code := script.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(output), want) || strings.Count(string(output), "\n") != 1 {
			t.Errorf("%s: exit code %d, %s", url, code, output)
		}
		if _, err := os.Stat(arguments); err == nil || len(entriesOf(t, folder)) > 0 {
			t.Errorf("%s: a backup was begun", url)
		}
	}
}

func TestBackupScriptLeavesNothingWhenItIsStopped(t *testing.T) {
	cache, database := servers.DedicatedRedis(t), servers.Postgres(t)
	connection, err := pgx.Connect(t.Context(), database.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	// pg_dump waits for the lock.
	if _, err := connection.Exec(t.Context(), "CREATE TABLE held (id int); BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "backups")
	script, arguments := backupScript(t, folder, cache.URL, database.URL)
	script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	dumps := false
	for end := time.Now().Add(time.Minute); !dumps && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(arguments)
		dumps = strings.Contains(string(text), "pg_dump")
	}
	// As systemd stops a unit, and as a terminal does with Ctrl-C.
	if err := syscall.Kill(-script.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := script.Wait(); err == nil || !dumps {
		t.Errorf("pg_dump was started: %v; the script ended with %v", dumps, err)
	}
	if names := entriesOf(t, folder); len(names) != 0 {
		t.Errorf("the folder has %q, want nothing", names)
	}
}
