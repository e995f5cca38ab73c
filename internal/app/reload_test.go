package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

// writeCertificate writes a certificate with a serial number, and its key.
func writeCertificate(t *testing.T, files TLSFiles, serial int64) {
	t.Helper()
	writeCertificateUntil(t, files, serial, time.Now().Add(time.Hour))
}

func writeCertificateUntil(t *testing.T, files TLSFiles, serial int64, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: until.Add(-2 * time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: der}, files.Key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// servedSerial returns the serial number of the certificate of the check listener.
func servedSerial(t *testing.T, a *App) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", a.CheckAddr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestReloadAppliesCertificatesLogLevelAndTrustedProxies(t *testing.T) {
	dir := t.TempDir()
	first := TLSFiles{filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")}
	second := TLSFiles{filepath.Join(dir, "b.crt"), filepath.Join(dir, "b.key")}
	writeCertificate(t, first, 1)
	writeCertificate(t, second, 2)
	path := writeFile(t, "")
	write := func(text string, files TLSFiles) {
		t.Helper()
		text += fmt.Sprintf("\ntls-cert: %s\ntls-key: %s\n", files.Cert, files.Key)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("", first)
	var log servers.Output
	a := startLogged(t, &log, "--config", path)
	reload := func() string {
		log.Reset()
		a.live.reload(func() (Settings, error) {
			return Load([]string{"--config", path, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", a.settings.DataDir, "--drain-timeout", "1s"},
				[]string{"STINT_ADMIN_TOKEN=" + edgeToken})
		})
		return log.String()
	}
	get := func(path, host, header string) (status int, body string) {
		t.Helper()
		answers := exchange(t, a.AdminAddr(), "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\nX-Forwarded-For: 198.51.100.9\r\n"+header+"\r\n")
		if len(answers) != 1 {
			t.Fatalf("%s: got %d answers", path, len(answers))
		}
		read, _ := io.ReadAll(answers[0].Body)
		return answers[0].StatusCode, string(read)
	}
	ask := func(path string) string {
		t.Helper()
		status, body := get(path, "x", "Authorization: Bearer "+edgeToken+"\r\n")
		if status != http.StatusOK {
			t.Fatalf("%s: got %d, %s", path, status, body)
		}
		return body
	}
	whoami := func() string { return ask("/v1/whoami") }
	answersHost := func() bool {
		status, _ := get("/login", "stint.example.com", "")
		return status != http.StatusMisdirectedRequest
	}
	// The log has a line about /livez at the level debug.
	logsDebug := func() bool {
		get("/livez", "x", "")
		return strings.Contains(log.String(), "/livez")
	}
	saysFailed := func() bool { return strings.Contains(ask("/metrics"), "\nstint_reload_failed 1\n") }
	if got := servedSerial(t, a); got != 1 || strings.Contains(whoami(), "198.51.100.9") || answersHost() || logsDebug() || saysFailed() {
		t.Fatalf("before the reload: certificate %d, %s, answers the host: %v, log %s", got, whoami(), answersHost(), log.String())
	}

	write("log-level: debug\ntrusted-proxies: 127.0.0.1\nallowed-hosts: stint.example.com\ncheck-deadline: 270ms\n", second)
	text := reload()
	if got := servedSerial(t, a); got != 2 || !strings.Contains(whoami(), "198.51.100.9") {
		t.Errorf("after the reload: certificate %d, %s", got, whoami())
	}
	if !logsDebug() || !answersHost() {
		t.Error("the log level or the allowed hosts did not change")
	}
	if !strings.Contains(text, `changed="tls-cert tls-key allowed-hosts trusted-proxies check-deadline log-level"`) ||
		!strings.Contains(text, "settings=check-deadline\n") {
		t.Errorf("got the log %s", text)
	}
	if shown := ask("/settings"); !strings.Contains(shown, "stint.example.com") || strings.Contains(shown, "270ms") {
		t.Errorf("the settings shown are not those in effect: %s", shown)
	}

	pipe := filepath.Join(dir, "pipe") // nobody writes to it
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// An invalid setting changes nothing, not even the other settings.
	for _, wrong := range []func(){
		func() { write("log-level: loud", first) },
		func() { write("log-level: info\ncheck-auth: maybe", first) },
		func() { write("log-level: info", TLSFiles{first.Cert, second.Key}) },
		func() { write("log-level: info", TLSFiles{filepath.Join(dir, "none"), first.Key}) },
		func() { write("log-level: info", TLSFiles{first.Cert, pipe}) },
	} {
		wrong()
		text := reload()
		a.live.followCertificates(t.Context()) // the certificates are valid, but not the settings
		if got := servedSerial(t, a); got != 2 || !logsDebug() || !saysFailed() || !strings.Contains(text, "level=ERROR") {
			t.Errorf("certificate %d, failed %v: %s", got, saysFailed(), text)
		}
	}
	write("", second)
	if text := reload(); saysFailed() || logsDebug() || strings.Contains(text, "level=ERROR") {
		t.Errorf("a valid file after an invalid one: %s", text)
	}

	// Replaced files are named even if no setting has changed.
	writeCertificateUntil(t, second, 4, time.Now().Add(-time.Minute))
	if text := reload(); strings.Count(text, "a new certificate is in effect") != 1 || !strings.Contains(text, "a certificate has expired") {
		t.Errorf("got the log %s", text)
	}
	// Changed files need no signal. If only half of a pair was replaced, nothing changes.
	writeCertificate(t, second, 3)
	a.live.followCertificates(context.Background())
	if got := servedSerial(t, a); got != 3 || !strings.Contains(log.String(), "a new certificate is in effect") {
		t.Errorf("got the certificate %d, want 3: %s", got, log.String())
	}
	if err := os.Rename(first.Cert, second.Cert); err != nil {
		t.Fatal(err)
	}
	// An invalid certificate is logged even if the settings are refused.
	a.live.reload(func() (Settings, error) { return Settings{}, errors.New("refused") })
	log.Reset()
	for range 3 {
		a.live.followCertificates(context.Background())
	}
	if got := servedSerial(t, a); got != 3 || strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("got the certificate %d, want 3: %s", got, log.String())
	}
	if err := os.Rename(first.Key, second.Key); err != nil {
		t.Fatal(err)
	}
	a.live.followCertificates(context.Background())
	if got := servedSerial(t, a); got != 1 {
		t.Errorf("got the certificate %d, want 1", got)
	}
}

// A settings file may be a named pipe. Until somebody writes it, the node reads certificates and can
// stop.
func TestUnwrittenSettingsDelayNoCertificate(t *testing.T) {
	dir := t.TempDir()
	files := TLSFiles{filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")}
	writeCertificate(t, files, 1)
	var log servers.Output
	a := startLogged(t, &log, "--tls-cert", files.Cert, "--tls-key", files.Key)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		a.live.reload(func() (Settings, error) { return Load([]string{"--config", pipe}, nil) })
	}()
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		writer.Close() // an empty file
		<-reloaded
	}()
	writeCertificate(t, files, 2)
	go a.live.followCertificates(t.Context())
	servers.Await(t, "the new certificate is in effect", func() bool { return servedSerial(t, a) == 2 })
}
