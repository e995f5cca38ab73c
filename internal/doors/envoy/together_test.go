package envoy

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// rawClient sends several calls in one write.
type rawClient struct {
	*testing.T
	conn        net.Conn
	framer      *http2.Framer // reads; and writes to out
	encoder     *hpack.Encoder
	out, header bytes.Buffer
	lastID      uint32
	contentType string
}

func newRawClient(t *testing.T, address string) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := &rawClient{T: t, conn: conn, contentType: "application/grpc"}
	c.framer = http2.NewFramer(&c.out, conn)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.header)
	c.out.WriteString(http2.ClientPreface)
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// add adds a call to what is sent next and returns its stream. metadata are names and values.
func (c *rawClient) add(method string, message []byte, metadata ...string) uint32 {
	c.Helper()
	if c.lastID += 2; c.lastID == 2 {
		c.lastID = 1
	}
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "x", "content-type", c.contentType, "te", "trailers"}, metadata...)
	c.header.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			c.Fatal(err)
		}
	}
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.lastID, BlockFragment: c.header.Bytes(), EndHeaders: true}); err != nil {
		c.Fatal(err)
	}
	if err := c.framer.WriteData(c.lastID, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)); err != nil {
		c.Fatal(err)
	}
	return c.lastID
}

func (c *rawClient) send() {
	c.Helper()
	if _, err := c.conn.Write(c.out.Bytes()); err != nil {
		c.Fatal(err)
	}
	c.out.Reset()
}

// next returns the next call that is answered: its stream, the message, the status and its text.
func (c *rawClient) next(messages map[uint32]string) (id uint32, status, text string) {
	c.Helper()
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			c.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			messages[f.StreamID] += string(f.Data())
		case *http2.RSTStreamFrame:
			c.Fatalf("the stream %d was reset: %s", f.StreamID, f.ErrCode)
		case *http2.GoAwayFrame:
			c.Fatalf("the connection ends: %s", f.ErrCode)
		case *http2.MetaHeadersFrame:
			if !f.StreamEnded() {
				continue
			}
			for _, field := range f.Fields {
				switch field.Name {
				case "grpc-status":
					status = field.Value
				case "grpc-message":
					text = field.Value
				}
			}
			return f.StreamID, status, text
		}
	}
}

// answers returns what each of some calls is answered.
func (c *rawClient) answers(count int) map[uint32]string {
	c.Helper()
	messages, all := map[uint32]string{}, map[uint32]string{}
	for range count {
		id, status, text := c.next(messages)
		all[id] = strings.TrimSpace(status + " " + text)
	}
	for id, message := range messages {
		all[id] += " " + message[min(5, len(message)):]
	}
	return all
}

// Calls that arrive together do not wait for those of the other service, nor do those that
// fail.
func TestCallsDoNotWaitForAnotherService(t *testing.T) {
	released := make(chan struct{})
	n := newNode(t, logs{checks: func(log timestamplog.Log) timestamplog.Log { return heldLog{log, released} }})
	c := newRawClient(t, n.address)
	held := c.add(methods[1], checkRequest(t, "198.51.100.1", nil), tokenMetadata, rightToken)
	c.add(methods[0], limitRequest(t, 0, user("one")), tokenMetadata, rightToken)
	c.add(methods[0], limitRequest(t, 4, user("fails")), tokenMetadata, rightToken)
	c.add(methods[0], limitRequest(t, 0, user("several"), user("others")), tokenMetadata, rightToken)
	c.send()
	messages := map[uint32]string{}
	for range 3 {
		if id, _, _ := c.next(messages); id == held {
			t.Error("a check was answered although its log is blocked")
		}
	}
	close(released)
	if id, _, _ := c.next(messages); id != held {
		t.Errorf("the call %d was answered twice", id)
	}
}

// Calls that arrive together are answered like grpc-go answers each of them.
func TestFastPathAnswersBatchesLikeGRPCGo(t *testing.T) {
	var got [2]map[uint32]string
	var sorted [2]string
	for i, contentType := range []string{"application/grpc", "application/grpc;proto"} { // the second of which the fast path does not read
		n := newNode(t, logs{})
		c := newRawClient(t, n.address)
		c.contentType = contentType
		for range 4 { // the limits are 2 and 3
			for _, call := range []struct {
				method string
				ask    []byte
				token  string
			}{
				{methods[0], limitRequest(t, 0, user("one")), rightToken},
				{methods[1], checkRequest(t, "198.51.100.1", nil), rightToken},
				{methods[0], limitRequest(t, 0, user("two")), rightToken},
				{methods[0], limitRequest(t, 0, user("wrong")), "wrong"},
				{methods[0], limitRequest(t, 4, user("over")), rightToken},
				{methods[0], []byte{0xff, 0xff}, rightToken},
				{methods[1], checkRequest(t, "198.51.100.66", nil), rightToken},
				{methods[1], checkRequest(t, "198.51.100.2", map[string]string{"policy": "none"}), rightToken},
				{methods[1], checkRequest(t, "198.51.100.3", map[string]string{"by": "ip,header:x-key"}), rightToken},
				{methods[0], limitRequest(t, 0, user("several"), user("others")), rightToken},
				{methods[1], checkRequest(t, "", nil), rightToken},
			} {
				c.add(call.method, call.ask, tokenMetadata, call.token)
			}
			c.send()
			all := c.answers(11)
			if got[i] == nil {
				got[i] = map[uint32]string{}
			}
			for id, text := range all {
				got[i][id] = text
			}
		}
		sorted[i] = n.sorted()
	}
	for id, text := range got[0] {
		method := methods[0]
		if at := id / 2 % 11; at == 1 || at == 6 || at == 7 || at == 8 || at == 10 {
			method = methods[1]
		}
		if a, z := deterministicAnswer(t, method, text), deterministicAnswer(t, method, got[1][id]); a != z {
			t.Errorf("call %d: the fast path returned %s, grpc-go %s", id, a, z)
		}
	}
	if len(got[0]) != 44 || sorted[0] != sorted[1] {
		t.Errorf("got %d answers, want 44; the fast path charged\n%s\nand grpc-go\n%s", len(got[0]), sorted[0], sorted[1])
	}
}

// deterministicAnswer returns a status and, where it is OK, a message with its map in order.
func deterministicAnswer(t *testing.T, method, text string) string {
	t.Helper()
	status, message, _ := strings.Cut(text, " ")
	if status != "0" {
		return text
	}
	return status + " " + deterministic(t, method, []byte(message))
}

// panickingLog panics about a key.
type panickingLog struct {
	timestamplog.Log
	key string
}

func (l panickingLog) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	l.panicAbout(requests)
	l.Log.Decide(ctx, requests, results)
}

func (l panickingLog) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	l.panicAbout(requests)
	return l.Log.DecideAll(ctx, requests, results)
}

func (l panickingLog) panicAbout(requests []timestamplog.Request) {
	for _, r := range requests {
		if strings.Contains(r.Key, l.key) {
			panic("a bug in the log")
		}
	}
}

// A panic fails the calls that caused it. The others that arrived with them are answered, and so
// are later calls on the connection.
func TestPanicFailsOnlyItsOwnCalls(t *testing.T) {
	const internal = "13 This node could not answer; its log has the cause."
	type call struct {
		method string
		ask    []byte
		token  string
		status string // begins with it
	}
	limit := func(name, token, status string) call {
		return call{methods[0], limitRequest(t, 0, user(name)), token, status}
	}
	check := func(address, status string) call {
		return call{methods[1], checkRequest(t, address, nil), rightToken, status}
	}
	for name, calls := range map[string][]call{
		"of one token":          {limit("one", rightToken, "0"), limit("two", panickingToken, internal), limit("three", rightToken, "0"), check("198.51.100.1", "0")},
		"of the log of a batch": {check("198.51.100.99", internal), check("198.51.100.1", internal), limit("one", rightToken, "0"), limit("two", rightToken, "0")},
		"of the other log":      {limit("one", rightToken, internal), limit("panics", rightToken, internal), check("198.51.100.1", "0"), check("198.51.100.66", "0")},
		"of both logs": {
			limit("panics", rightToken, internal), check("198.51.100.99", internal),
			{methods[0], limitRequest(t, 0, user("a"), user("b")), rightToken, "0"}, limit("x", "wrong", "16"),
		},
		"of a call alone": {{methods[0], limitRequest(t, 0, user("a"), user("panics")), rightToken, internal}, limit("one", rightToken, "0"), check("198.51.100.1", "0")},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, logs{
				limits: func(log timestamplog.Log) timestamplog.Log { return panickingLog{log, "panics"} },
				checks: func(log timestamplog.Log) timestamplog.Log { return panickingLog{log, "198.51.100.99"} },
			})
			c := newRawClient(t, n.address)
			want := map[uint32]string{}
			for range 2 {
				for _, call := range calls {
					want[c.add(call.method, call.ask, tokenMetadata, call.token)] = call.status
				}
				c.send()
				for id, got := range c.answers(len(calls)) {
					if !strings.HasPrefix(got, want[id]) {
						t.Errorf("call %d: got %q, want %q", id, got, want[id])
					}
					delete(want, id)
				}
			}
			c.add(methods[0], limitRequest(t, 0, user("later")), tokenMetadata, rightToken)
			c.send()
			if got := fmt.Sprint(c.answers(1)); !strings.Contains(got, ":0 ") {
				t.Errorf("a later call: got %q, want OK", got)
			}
		})
	}
}
