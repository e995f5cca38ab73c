package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadReadsSecretsFromFiles(t *testing.T) {
	const token, other = "9f5c1b7d2830694ef1a5c3d7e2b4a8f0", "0f5c1b7d2830694ef1a5c3d7e2b4a8f0"
	path := writeFile(t, token+"\n")
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "admin-token"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials := "CREDENTIALS_DIRECTORY=" + folder
	for name, test := range map[string]struct {
		args, environ []string
		want          string // or part of the error
	}{
		"variable":                       {nil, []string{"STINT_ADMIN_TOKEN_FILE=" + path}, token},
		"flag":                           {[]string{"--admin-token-file", path}, nil, token},
		"settings file":                  {[]string{"--config", writeFile(t, "admin-token-file: "+path)}, nil, token},
		"credential":                     {nil, []string{credentials}, other},
		"variable before credential":     {nil, []string{credentials, "STINT_ADMIN_TOKEN=" + token}, token},
		"credential before file":         {[]string{"--config", writeFile(t, "admin-token: "+token)}, []string{credentials}, other},
		"the file of a flag, a variable": {[]string{"--admin-token-file", path}, []string{"STINT_ADMIN_TOKEN=" + other}, "STINT_ADMIN_TOKEN and --admin-token-file are both given"},
		"a variable, the file of a file": {[]string{"--config", writeFile(t, "admin-token-file: "+path)}, []string{"STINT_ADMIN_TOKEN=" + other}, "STINT_ADMIN_TOKEN and admin-token-file in "},
		"two files":                      {[]string{"--admin-token-file", path}, []string{"STINT_ADMIN_TOKEN_FILE=/nonexistent"}, token},
		"an empty variable":              {nil, []string{"STINT_ADMIN_TOKEN=", "STINT_ADMIN_TOKEN_FILE=" + path}, token},
		"variable and its file":          {nil, []string{"STINT_ADMIN_TOKEN=" + other, "STINT_ADMIN_TOKEN_FILE=" + path}, "STINT_ADMIN_TOKEN and STINT_ADMIN_TOKEN_FILE are both given"},
		"a missing file":                 {nil, []string{"STINT_ADMIN_TOKEN_FILE=/nonexistent"}, "STINT_ADMIN_TOKEN_FILE: open /nonexistent"},
		"an empty file":                  {nil, []string{"STINT_ADMIN_TOKEN_FILE=" + writeFile(t, "\n")}, "is empty"},
		"two lines":                      {nil, []string{"STINT_ADMIN_TOKEN_FILE=" + writeFile(t, token+"\nhunter2")}, "must hold one line"},
		"a setting that is no secret":    {[]string{"--config", writeFile(t, "log-level-file: "+path)}, nil, `no setting "log-level-file"`},
	} {
		s, err := Load(test.args, test.environ)
		if err == nil && s.AdminToken != test.want || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got %q, %v", name, s.AdminToken, err)
		}
	}
	url := writeFile(t, "postgres://u:hunter2@h/db\n")
	s, err := Load([]string{"--redis-url", "redis://h", "--database-url-file", url}, nil)
	if err != nil || s.DatabaseURL != "postgres://u:hunter2@h/db" {
		t.Errorf("got %q, %v", s.DatabaseURL, err)
	}
}

// TestLoadReadsSettingsFromCredentialsFolder puts settings that are not secret into the
// folder, as a Kubernetes Secret may contain.
func TestLoadReadsSettingsFromCredentialsFolder(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("check-auth", "token\n")
	write("require-totp", "all")
	write("log-level", "warn")
	environ := []string{"CREDENTIALS_DIRECTORY=" + folder, "STINT_LOG_LEVEL=error"}
	s, err := Load([]string{"--config", writeFile(t, "check-auth: none\n")}, environ)
	if err != nil || s.CheckAuth != "token" || s.RequireTOTP.String() != "all" || s.LogLevel != "error" {
		t.Errorf("got %q, %q, %s, %v", s.CheckAuth, s.RequireTOTP, s.LogLevel, err)
	}
	write("check-auth", "token\nnone\n")
	if _, err := Load(nil, environ); err == nil || !strings.Contains(err.Error(), "the credential check-auth: the file "+folder) {
		t.Errorf("two lines: got %v, want an error that names the file", err)
	}
	write("check-auth", "maybe")
	if _, err := Load(nil, environ); err == nil || !strings.Contains(err.Error(), "the credential check-auth: must be") {
		t.Errorf("a bad value: got %v, want an error", err)
	}
}

func TestFolderOfCredentialsThatCannotBeReadIsAFault(t *testing.T) {
	// Root reads every folder, and none reads a file as one.
	folder := writeFile(t, "")
	if _, err := Load(nil, []string{"CREDENTIALS_DIRECTORY=" + folder}); err == nil || !strings.Contains(err.Error(), "CREDENTIALS_DIRECTORY: ") || !strings.Contains(err.Error(), folder) {
		t.Errorf("got %v, want an error that names the folder", err)
	}
	if _, err := Load(nil, []string{"CREDENTIALS_DIRECTORY=" + folder + "-missing"}); err != nil {
		t.Errorf("a folder that does not exist: got %v", err)
	}
}
