package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A release is signed by a key of the test's, and openssl, as the documents say, verifies it.
func TestProofsAreVerifiedByOpenSSL(t *testing.T) {
	dir := t.TempDir()
	private, public := filepath.Join(dir, "key.pem"), filepath.Join(dir, "dist", "stint.pub")
	output(t, "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private)
	text, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := releaseKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	r := &release{out: filepath.Join(dir, "dist"), version: "1.2.3", commit: strings.Repeat("a", 40)}
	if err := os.Mkdir(r.out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.out, "stint.tar.gz"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{func() error { return r.prove(key) }, r.checksums, func() error { return r.signChecksums(key) }} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(text []byte, sig string) {
		t.Helper()
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(sig))
		if err != nil {
			t.Fatal(err)
		}
		signed, signatureFile := filepath.Join(dir, "signed"), filepath.Join(dir, "signature")
		for path, content := range map[string][]byte{signed: text, signatureFile: raw} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := output(t, "openssl", "dgst", "-sha256", "-verify", public, "-signature", signatureFile, signed); !strings.Contains(got, "Verified OK") {
			t.Error(got)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	sums := read("SHA256SUMS")
	if !strings.Contains(sums, "  provenance.intoto.jsonl\n") || !strings.Contains(sums, "  stint.tar.gz\n") {
		t.Errorf("the checksums are\n%s", sums)
	}
	verify([]byte(sums), read("SHA256SUMS.sig"))
	var signed envelope
	if err := json.Unmarshal([]byte(read("provenance.intoto.jsonl")), &signed); err != nil || len(signed.Signatures) != 1 {
		t.Fatalf("%+v, %v", signed, err)
	}
	payload, err := base64.StdEncoding.DecodeString(signed.Payload)
	if err != nil {
		t.Fatal(err)
	}
	verify(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(signed.PayloadType), signed.PayloadType, len(payload), payload), signed.Signatures[0].Sig)
	var s statement
	if err := json.Unmarshal(payload, &s); err != nil || len(s.Subject) != 1 || s.Subject[0].Name != "stint.tar.gz" ||
		s.Subject[0].Digest["sha256"] != "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73" || s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"] != r.commit {
		t.Errorf("%s, %v", payload, err)
	}
}

func TestKeysThatAreNone(t *testing.T) {
	if key, err := releaseKey(""); key != nil || err != nil {
		t.Errorf("no key: %v, %v", key, err)
	}
	for _, text := range []string{"secret", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := releaseKey(text); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
