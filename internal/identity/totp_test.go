package identity

import (
	"encoding/base32"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"
)

// The codes of RFC 6238, appendix B, for SHA-1, cut to six digits.
func TestTOTPCodesMatchRFC6238(t *testing.T) {
	secret := TOTPSecret("12345678901234567890")
	for at, code := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if step, found := secret.Step(code, time.Unix(at, 0)); !found || step != at/30 {
			t.Errorf("%s at %d: step %d, %v", code, at, step, found)
		}
	}
}

func TestTOTPCodeIsAcceptedOneStepEarlyOrLate(t *testing.T) {
	secret, at := NewTOTPSecret(), time.Unix(1_800_000_000, 0)
	code, err := totp.GenerateCode(secret.Text(), at)
	if err != nil {
		t.Fatal(err)
	}
	for off, want := range map[time.Duration]bool{
		-60 * time.Second: false, -30 * time.Second: true, 0: true, 30 * time.Second: true, 60 * time.Second: false,
	} {
		step, found := secret.Step(code, at.Add(off))
		if found != want || found && step != TOTPStepAt(at) {
			t.Errorf("Step at an offset of %s = %d, %v, want %v", off, step, found, want)
		}
	}
	for _, wrong := range []string{"", "12345", code + "0", "abcdef", strings.Repeat("1", 10_000)} {
		if _, found := SecondFactorOf(wrong, secret, at); found {
			t.Errorf("%q was accepted", wrong)
		}
	}
	// The codes of an empty key can be computed by anybody.
	empty, err := hotp.GenerateCode("", uint64(TOTPStepAt(at)))
	if err != nil {
		t.Fatal(err)
	}
	if _, found := SecondFactorOf(empty, nil, at); found {
		t.Error("a secret that could not be read accepts the codes of an empty key")
	}
	if factor, found := SecondFactorOf(" "+code[:3]+" "+code[3:], secret, at); !found || factor.IsRecovery() {
		t.Errorf("SecondFactorOf a code with spaces = %+v, %v", factor, found)
	}
}

func TestTOTPSecretHas160BitsAndIsHiddenInLogs(t *testing.T) {
	secret := NewTOTPSecret()
	raw, err := base32.StdEncoding.DecodeString(secret.Text())
	if err != nil || len(raw) != 20 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	key, err := otp.NewKeyFromURL(secret.URL("maria@stint.example.com"))
	if err != nil || key.Secret() != secret.Text() || key.Issuer() != "Stint" || key.AccountName() != "maria@stint.example.com" ||
		key.Period() != 30 || key.Digits() != otp.DigitsSix || key.Algorithm() != otp.AlgorithmSHA1 || key.Type() != "totp" {
		t.Errorf("%v, %v", key, err)
	}
	said := &strings.Builder{}
	slog.New(slog.NewTextHandler(said, nil)).Info("x", "secret", secret)
	fmt.Fprintf(said, "%v %s %+v %#v", secret, secret, TOTP{Secret: secret}, TOTP{Secret: secret})
	if strings.Contains(said.String(), secret.Text()) || strings.Contains(said.String(), fmt.Sprint([]byte(secret))) {
		t.Errorf("the log contains the secret: %s", said)
	}
}

func TestSecondFactorOfAcceptsRecoveryCodesInAnyForm(t *testing.T) {
	codes, hashes := NewRecoveryCodes()
	if len(codes) != RecoveryCodeCount || len(hashes) != RecoveryCodeCount {
		t.Fatalf("%d codes, %d hashes", len(codes), len(hashes))
	}
	for i, code := range codes {
		for _, typed := range []string{code, strings.ToUpper(code), strings.ReplaceAll(code, "-", ""), strings.ReplaceAll(code, "-", " ")} {
			factor, found := SecondFactorOf(typed, NewTOTPSecret(), time.Now())
			if !found || string(factor.RecoveryHash) != string(hashes[i]) {
				t.Errorf("SecondFactorOf(%q) = %+v, %v", typed, factor, found)
			}
		}
	}
}

func TestParseTOTPRoles(t *testing.T) {
	for text, want := range map[string]string{"none": "", "admin": "admin", "operator": "operator admin", "all": "viewer operator admin"} {
		roles, err := ParseTOTPRoles(text)
		if err != nil || roles.String() != text {
			t.Fatalf("%s: %s, %v", text, roles, err)
		}
		var got []string
		for _, role := range []Role{Viewer, Operator, Administrator} {
			if roles.Include(role) {
				got = append(got, string(role))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s includes %s, want %s", text, got, want)
		}
	}
	if _, err := ParseTOTPRoles("viewer"); err == nil {
		t.Error("ParseTOTPRoles accepted viewer alone")
	}
}
