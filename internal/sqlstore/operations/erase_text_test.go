package operations

import (
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

func TestErasedKeysInTexts(t *testing.T) {
	for _, c := range []struct{ key, text, want string }{
		{"ip:192.0.2.1", "Blocked ip:192.0.2.1.", "Blocked NAME."},
		{"ip:192.0.2.1", "ip:192.0.2.10 and ip:192.0.2.1: once", "ip:192.0.2.10 and NAME: once"},
		{"ip:192.0.2.1", "from 192.0.2.1, 192.0.2.1:443 and 192.0.2.11", "from NAME, NAME:443 and 192.0.2.11"},
		{"ip:192.0.2.1", "/blocks?pattern=ip%3A192.0.2.1&x=1", "/blocks?pattern=NAME&x=1"},
		{"ip:192.0.2.1", "/blocks?pattern=ip%3A192.0.2.11", "/blocks?pattern=ip%3A192.0.2.11"},
		{"ip:2001:db8::/64", "ip:2001:db8::/64, 2001:db8::1 and [2001:db8::2]:443, not 2001:db8:1::1", "NAME, NAME and [NAME]:443, not 2001:db8:1::1"},
		{"client:alice", "client:alice client:alice2 xclient:alice client:alice=prod client:alice|x (client:alice)", "NAME client:alice2 xclient:alice client:alice=prod client:alice|x (NAME)"},
		{"client:alice", `{"client:alice":1,"top":["client:alice","of client:alice."],"n":12345678901234567890}`, `{"client:alice":1,"top":["NAME","of NAME."],"n":12345678901234567890}`},
		{"user:a\"b", `{"key":"user:a\"b"}`, `{"key":"NAME"}`},
		{"user:ÄRZTE", "user:ÄRZTE und user:ÄRZTEN", "NAME und user:ÄRZTEN"},
	} {
		key, err := (keys.Parser{}).Key(c.key)
		if err != nil {
			t.Fatal(err)
		}
		e := &erasing{key: key.String(), name: "NAME"}
		e.network, e.isNetwork = key.Network()
		if got := e.replaceIn(c.text); got != c.want {
			t.Errorf("%s in %s: got %s, want %s", c.key, c.text, got, c.want)
		}
	}
}
