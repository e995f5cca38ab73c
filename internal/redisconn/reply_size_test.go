package redisconn_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/test/servers"
)

// go-redis allocates what a reply announces, and Go ends a process that cannot allocate it.
func TestAnnouncedLengthAllocatesNoMemory(t *testing.T) {
	server := servers.Redis(t)
	for name, reply := range map[string]string{
		"a text":                  "$9999999999999\r\n",
		"a text of any number":    "$99999999999999999999999\r\n",
		"an array":                "*1099511627776\r\n",
		"a set":                   "~1099511627776\r\n",
		"a map":                   "%1099511627776\r\n",
		"a message":               ">1099511627776\r\n",
		"attributes":              "|1099511627776\r\n",
		"arrays that are less":    strings.Repeat("*1000000\r\n", 12),
		"an array in the second":  "+OK\r\n*1099511627776\r\n",
		"an array in an array":    "*2\r\n*1\r\n$2\r\nab\r\n$9999999999999\r\n",
		"an array behind a map":   "%1\r\n+a\r\n*0\r\n*1099511627776\r\n",
		"arrays without an end":   strings.Repeat("*1\r\n", 1000),
		"a line without an end":   "+" + strings.Repeat("a", 100<<10),
		"a text of many messages": "*3\r\n$30000000\r\n" + strings.Repeat("a", 30000000) + "\r\n$30000000\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			proxy := servers.NewProxy(t, server.Addr)
			client := connect(t, "redis://"+proxy.Addr)
			must(t, client.Ping(t.Context()).Err())
			proxy.Answer(reply)
			var err error
			for range 3 { // the second reply is read with the next command
				if err = client.Do(t.Context(), "ECHO", "a").Err(); err != nil {
					break
				}
			}
			if err == nil {
				t.Fatal("it was taken")
			}
			proxy.Relay()
			if err := client.Ping(t.Context()).Err(); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestRepliesOfEveryKindFit(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "(123\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "*0\r\n", "%0\r\n",
		"$5\r\n*9999\r\n", "$22\r\na\r\n$9999999999999\r\n+OK\r\n", "=5\r\ntxt:a\r\n", "!5\r\nERR a\r\n",
		"*3\r\n*2\r\n:1\r\n$1\r\na\r\n*-1\r\n%1\r\n+a\r\n~1\r\n_\r\n",
		">3\r\n+message\r\n+a\r\n$1\r\nb\r\n", "|1\r\n+ttl\r\n:1\r\n+OK\r\n", "*1\r\n|1\r\n+ttl\r\n:1\r\n+OK\r\n",
		"*100000\r\n" + strings.Repeat("$13\r\n1790000000000\r\n", 100000),
	} {
		// The last reply must be refused, which shows that the ends of all others were found.
		all := strings.Repeat(reply, 3) + "*99999999\r\n"
		for _, size := range []int{1, 2, 7, 4096} {
			if at := redisconn.FirstUnfit(all, size); at != (len(all)-1)/size*size {
				t.Errorf("%.40q in pieces of %d: refused at byte %d of %d", reply, size, at, len(all))
			}
		}
	}
}
