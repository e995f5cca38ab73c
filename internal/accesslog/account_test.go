package accesslog

import (
	"strings"
	"testing"
)

func TestAccountFieldIsRead(t *testing.T) {
	for name, c := range map[string]struct{ text, account, want string }{
		"CLF":         {`203.0.113.7 - alice [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 401 12` + "\n", "user", "alice"},
		"CLF without": {`203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 401 12` + "\n", "user", ""},
		"not read":    {`203.0.113.7 - alice [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 401 12` + "\n", "", ""},
		"JSON":        {`{"time":"2026-10-10T13:55:36Z","remote_addr":"203.0.113.7","form":{"login":"al\u0069ce"}}` + "\n", "form.login", "alice"},
		"CSV":         {"time,ip,login\n2026-10-10T13:55:36Z,203.0.113.7,alice\n", "login", "alice"},
	} {
		r, err := NewReader(strings.NewReader(c.text), "log", Options{Account: c.account})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		record, err := r.Next()
		if err != nil || record.Account != c.want {
			t.Errorf("%s: Next: got %+v, %v, want the account %q", name, record, err, c.want)
		}
	}
	for name, text := range map[string]string{"CLF": `203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 12` + "\n", "CSV": "time,ip\n2026-10-10T13:55:36Z,203.0.113.7\n"} {
		r, err := NewReader(strings.NewReader(text), "log", Options{Account: "nothing"})
		if err == nil {
			_, err = r.Next()
		}
		if err == nil {
			t.Errorf("%s: an account field that the format does not have: got no error", name)
		}
	}
}
