package proxies

import "testing"

func TestParse(t *testing.T) {
	got, err := Parse(" 10.0.0.0/8, 192.0.2.10 ,::ffff:198.51.100.0/120, 2001:db8::/32,")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10.0.0.0/8", "192.0.2.10/32", "198.51.100.0/24", "2001:db8::/32"}
	for i, text := range want {
		if i >= len(got) || got[i].String() != text {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	for _, bad := range []string{"0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96", "::ffff:0:0/90", "1.2.3.4/0", "0.0.0.0/1", "128.0.0.0/1", "2000::/3", "localhost", "10.0.0.0/33", "*"} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("Parse(%s): got %v, want an error", bad, got)
		}
	}
	if got, err := Parse(""); err != nil || len(got) != 0 {
		t.Errorf("Parse of nothing: got %v, %v", got, err)
	}
}
