package identity

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestVerifyPasswordAcceptsOnlyMatchingHash(t *testing.T) {
	phc := HashPassword("correct horse battery")
	if !strings.HasPrefix(phc, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("got %s", phc)
	}
	if !VerifyPassword(phc, "correct horse battery") {
		t.Error("the right password was refused")
	}
	for name, try := range map[string]struct{ phc, password string }{
		"another password":         {phc, "correct horse batterz"},
		"an empty password":        {phc, ""},
		"an empty hash":            {"", "the password of nobody"},
		"a broken hash":            {"$argon2id$v=19$m=19456,t=2,p=1$AAAA", "x"},
		"a hash of huge memory":    {strings.Replace(phc, "m=19456", "m=4000000000", 1), "correct horse battery"},
		"an oversized password":    {phc, strings.Repeat("x", MaxPassword+1)},
		"a hash of another method": {strings.Replace(phc, "argon2id", "argon2i", 1), "correct horse battery"},
	} {
		if VerifyPassword(try.phc, try.password) {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestVerifyStrangersPasswordDoesNotDelayKnownUsers holds the slot for strangers' passwords.
func TestVerifyStrangersPasswordDoesNotDelayKnownUsers(t *testing.T) {
	phc := HashPassword("correct horse battery")
	if matches, err := VerifyStrangersPassword(t.Context(), phc, "correct horse battery"); !matches || err != nil {
		t.Errorf("VerifyStrangersPassword alone = %v, %v, want true", matches, err)
	}
	strangers <- struct{}{} // one that does not end
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if matches, err := VerifyStrangersPassword(ctx, phc, "correct horse battery"); matches || !errors.Is(err, context.Canceled) {
		t.Errorf("VerifyStrangersPassword behind another = %v, %v, want context.Canceled", matches, err)
	}
	if !VerifyPassword(phc, "correct horse battery") {
		t.Error("VerifyPassword of a known user was refused")
	}
	<-strangers
	if cap(strangers) >= cap(hashing) {
		t.Error("strangers can use all slots for hashing")
	}
}

func TestCheckPasswordRejectsBadPasswords(t *testing.T) {
	for _, bad := range []string{"", "too short", "\xff\xfe invalid utf8", strings.Repeat("x", MaxPassword+1)} {
		if CheckPassword(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if err := CheckPassword("long enough"); err != nil {
		t.Error(err)
	}
}

func TestNewSecretMatchesPatternAndChecksum(t *testing.T) {
	form := regexp.MustCompile(`^` + SecretPattern + `$`)
	for want, scopes := range map[string][]Access{
		"stint_check_":   {Check},
		"stint_read_":    {Check, Read},
		"stint_operate_": {Operate, Read},
		"stint_admin_":   {Admin, Check},
	} {
		s := NewSecret(scopes)
		if !form.MatchString(s.Text) || !strings.HasPrefix(s.Text, want) || Mistyped(s.Text) {
			t.Errorf("%v: got %s", scopes, s.Text)
		}
		if s.Hint != s.Text[:len(want)+4] || s.Hash != HashSecret(s.Text) {
			t.Errorf("got the hint %s or a wrong hash of %s", s.Hint, s.Text)
		}
		other := "0"
		if strings.HasSuffix(s.Text, other) {
			other = "1"
		}
		if !Mistyped(s.Text[:len(s.Text)-1] + other) {
			t.Errorf("Mistyped did not detect a wrong last digit of %s", s.Text)
		}
	}
	if a, b := NewSecret(nil), NewSecret(nil); a.Text == b.Text {
		t.Error("two secrets are the same")
	}
	if Mistyped("chosen-by-an-operator") || SecretOf("chosen-by-an-operator").Hint != "chos" || SecretOf("abc").Hint != "" {
		t.Error("a configured secret has a checksum or a wrong hint")
	}
}
