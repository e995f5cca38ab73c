package main

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keyVariable is the variable with the private key of the release, PEM of an ECDSA key. Without it nothing is signed.
const keyVariable = "STINT_RELEASE_KEY"

// sources is where the sources and this program are.
const sources = "https://github.com/stint-dev/stint"

// statement is an in-toto Statement v1 with the predicate SLSA Provenance v1: https://slsa.dev/spec/v1.0/provenance
type statement struct {
	Type          string     `json:"_type"`
	Subject       []material `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			ResolvedDependencies []material        `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

type material struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// provenance returns the statement of what was built of what: the same bytes for each build of a commit.
func (r *release) provenance() ([]byte, error) {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	files, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return nil, err
		}
		s.Subject = append(s.Subject, material{Name: f.Name(), Digest: map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256(content))}})
	}
	slices.SortFunc(s.Subject, func(a, b material) int { return strings.Compare(a.Name, b.Name) })
	build := &s.Predicate.BuildDefinition
	build.BuildType = sources + "/blob/main/tools/dist/main.go"
	build.ExternalParameters = map[string]string{"command": "make dist", "version": r.version}
	build.ResolvedDependencies = []material{{URI: "git+" + sources, Digest: map[string]string{"gitCommit": r.commit}}}
	s.Predicate.RunDetails.Builder.ID = sources + "/blob/main/.github/workflows/release.yml"
	return json.Marshal(s)
}

// statementType is the type of a statement in an envelope.
const statementType = "application/vnd.in-toto+json"

// envelope is a signed statement, as DSSE has it: https://github.com/secure-systems-lab/dsse
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	Sig string `json:"sig"`
}

// prove writes the provenance of the files, and, with the key of the release, puts it into a signed envelope
// and writes the public key.
func (r *release) prove(key *ecdsa.PrivateKey) error {
	text, err := r.provenance()
	if err != nil {
		return err
	}
	if key == nil {
		return os.WriteFile(filepath.Join(r.out, "provenance.json"), append(text, '\n'), 0o644)
	}
	sig, err := sign(key, fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementType), statementType, len(text), text))
	if err != nil {
		return err
	}
	signed, err := json.Marshal(envelope{statementType, base64.StdEncoding.EncodeToString(text), []signature{{sig}}})
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "stint.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "provenance.intoto.jsonl"), append(signed, '\n'), 0o644)
}

// signChecksums signs SHA256SUMS, as "cosign sign-blob" does.
func (r *release) signChecksums(key *ecdsa.PrivateKey) error {
	if key == nil {
		return nil
	}
	path := filepath.Join(r.out, "SHA256SUMS")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sig, err := sign(key, text)
	if err != nil {
		return err
	}
	return os.WriteFile(path+".sig", []byte(sig+"\n"), 0o644)
}

// sign returns the signature of a text in base64. It is that of RFC 6979, the same for the same text.
func sign(key *ecdsa.PrivateKey, text []byte) (string, error) {
	hash := sha256.Sum256(text)
	sig, err := ecdsa.SignASN1(nil, key, hash[:])
	return base64.StdEncoding.EncodeToString(sig), err
}

// releaseKey reads a private key, nil of an empty text.
func releaseKey(text string) (*ecdsa.PrivateKey, error) {
	if text == "" {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New(keyVariable + " is not PEM; openssl ecparam -name prime256v1 -genkey -noout makes a key")
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, is := parsed.(*ecdsa.PrivateKey); is && err == nil {
		return key, nil
	}
	return nil, errors.New(keyVariable + " is not a private key of ECDSA")
}
