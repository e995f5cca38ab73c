package envoy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

const reflectionMethod = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

// serveMemory starts a server that anybody may call, and returns its address.
func serveMemory(t *testing.T, reflection bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{View: emptyView{}, Reflection: reflection, Authorize: func(netip.Addr, string) (string, error) { return "", nil }})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop(0)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// hoard opens a connection whose client takes no answer, makes calls on it and sends each of
// them all messages. It returns once every call is answered as far as the window allows, with
// the status of each: "" for one that waits.
func hoard(t *testing.T, address, method string, calls int, messages []byte) (net.Conn, map[uint32]string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	sent := make(chan error, 1)
	go func() {
		var out, fields bytes.Buffer
		framer, encoder := http2.NewFramer(&out, nil), hpack.NewEncoder(&fields)
		out.WriteString(http2.ClientPreface)
		err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for i := range calls {
			fields.Reset()
			for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
				_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer never fails
			}
			id := uint32(2*i + 1) //nolint:gosec // some hundred
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: fields.Bytes(), EndHeaders: true})
			_ = framer.WriteData(id, false, messages)
			if err == nil {
				_, err = c.Write(out.Bytes())
			}
			out.Reset()
		}
		sent <- err
	}()
	answers := map[uint32]string{}
	framer := http2.NewFramer(nil, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for len(answers) < calls {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("after %d of %d calls: %v", len(answers), calls, err)
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			answers[f.StreamID] = f.ErrCode.String()
		case *http2.MetaHeadersFrame:
			answers[f.StreamID] = ""
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					answers[f.StreamID] = field.Value
				}
			}
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return c, answers
}

// inUse returns the bytes of the heap and the stacks that are in use.
func inUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse) //nolint:gosec // below 2^63
}

// promised returns the bytes that docs/SECURITY.md says the listener uses for some connections.
func promised(t *testing.T, connections int) int {
	t.Helper()
	text, err := os.ReadFile("../../../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`at most (\d+) MiB beyond (\d+) KiB of each connection`).FindSubmatch(text)
	if said == nil {
		t.Fatal("docs/SECURITY.md does not say how much memory calls use")
	}
	all, _ := strconv.Atoi(string(said[1]))
	each, _ := strconv.Atoi(string(said[2]))
	return all<<20 + connections*each<<10
}

func reflectionMessages(t *testing.T, n int) (messages []byte) {
	t.Helper()
	q, err := newCodec().Marshal(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "envoy.service.auth.v3.Authorization"},
	})
	if err != nil {
		t.Fatal(err)
	}
	message := q.MaterializeToBuffer(mem.NopBufferPool{}).ReadOnlyData()
	for range n {
		messages = append(binary.BigEndian.AppendUint32(append(messages, 0), uint32(len(message))), message...) //nolint:gosec // some dozen
	}
	return messages
}

// Answers that wait for their clients, and requests behind them, use no more memory than
// docs/SECURITY.md says, and none once the connections are closed.
func TestAnswersThatWaitUseBoundedMemory(t *testing.T) {
	const connections, calls = 4, 500
	messages := reflectionMessages(t, 64)
	address := serveMemory(t, true)
	before := inUse()
	for round := range 2 {
		var open []net.Conn
		statuses := map[string]int{}
		for range connections {
			c, answers := hoard(t, address, reflectionMethod, calls, messages)
			open = append(open, c)
			for _, s := range answers {
				statuses[s]++
			}
		}
		used := inUse() - before
		t.Logf("round %d: %d bytes in use, answers %v", round, used, statuses)
		if most := promised(t, connections); used > most {
			t.Errorf("round %d: %d bytes are in use, want at most %d", round, used, most)
		}
		if statuses[""] < connections {
			t.Errorf("round %d: the calls ended with %v, want some on each connection that wait", round, statuses)
		}
		for _, c := range open {
			c.Close()
		}
	}
}

func TestReflectionIsOffUnlessEnabled(t *testing.T) {
	for reflection, want := range map[bool]codes.Code{false: codes.Unimplemented, true: codes.OK} {
		conn, err := grpc.NewClient(serveMemory(t, reflection), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // each is read once the one before is answered
			if err = stream.Send(&reflectionv1.ServerReflectionRequest{
				MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
			}); err == nil || errors.Is(err, io.EOF) { // of a call that has ended, Recv has the status
				_, err = stream.Recv()
			}
			if got := status.Code(err); got != want {
				t.Errorf("with reflection %v a call ended with %v, want %v", reflection, got, want)
				break
			}
			if want != codes.OK {
				break
			}
		}
	}
}
