package conditions

import "testing"

// Nobody evades a condition by a second value of an attribute that has one.
func TestAnAttributeWithSeveralValuesMeetsEveryCondition(t *testing.T) {
	one, several := (*Request)(nil).Saying(JA4, "t13d"), (*Request)(nil).Saying(JA4, "t12", "t13d")
	if one.Value(JA4) != "t13d" || several.Value(JA4) != "" {
		t.Errorf("they are said to be %q and %.20q", one.Value(JA4), several.Value(JA4))
	}
	for pattern, want := range map[string][2]bool{"t13*": {true, true}, "x*": {false, true}, "not t13*": {false, true}, "not x*": {true, true}} {
		when, err := Parse(Texts{"ja4": {pattern}})
		if err != nil {
			t.Fatal(err)
		}
		index := NewIndex([]When{when})
		for i, r := range []*Request{one, several} {
			isFound := false
			index.Find(r, func(int) { isFound = true })
			if isMet := when.Meets(r); isMet != want[i] || isFound != want[i] {
				t.Errorf("%s: %d values meet it: %v, by the index %v, want %v", pattern, i+1, isMet, isFound, want[i])
			}
		}
	}
}
