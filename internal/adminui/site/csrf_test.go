package site

import "testing"

func TestMaskCSRFDiffersEachTime(t *testing.T) {
	const token = "KZ4F2NQ3XJ7T5WAYB6RMCE2LHP"
	first, second := MaskCSRF(token), MaskCSRF(token)
	if first == second || first == token {
		t.Errorf("MaskCSRF returned %q and %q, want two different texts", first, second)
	}
	for masked, want := range map[string]bool{
		first: true, second: true, token: false, "": false, first + "A": false, first[:len(first)-2]: false, MaskCSRF("another"): false,
		MaskCSRF("KZ4F2NQ3XJ7T5WAYB6RMCE2LHQ"): false, "no base64!": false,
	} {
		if IsMaskedCSRF(masked, token) != want {
			t.Errorf("IsMaskedCSRF(%q) = %v, want %v", masked, !want, want)
		}
	}
	if MaskCSRF("") != "" || IsMaskedCSRF("", "") {
		t.Error("an empty CSRF token is valid")
	}
}
