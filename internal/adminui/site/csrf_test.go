package site

import "testing"

func TestACSRFTokenIsAnotherTextInEveryPage(t *testing.T) {
	const token = "KZ4F2NQ3XJ7T5WAYB6RMCE2LHP"
	first, second := MaskCSRF(token), MaskCSRF(token)
	if first == second || first == token {
		t.Errorf("masked as %q and as %q", first, second)
	}
	for masked, want := range map[string]bool{
		first: true, second: true, token: false, "": false, first + "A": false, first[:len(first)-2]: false, MaskCSRF("another"): false,
		MaskCSRF("KZ4F2NQ3XJ7T5WAYB6RMCE2LHQ"): false, "no base64!": false,
	} {
		if IsMaskedCSRF(masked, token) != want {
			t.Errorf("%q: valid %v, want %v", masked, !want, want)
		}
	}
	if MaskCSRF("") != "" || IsMaskedCSRF("", "") {
		t.Error("no token is valid")
	}
}
