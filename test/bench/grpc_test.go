package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// rateLimited is a server of the Rate Limit Service that is asked over connections whose
// client does little but write and read frames, together those that come together: that of
// grpc-go would take more of the machine than the servers that are compared.
type rateLimited struct {
	pid   int
	conns []*rateLimitConn
}

// rated is its answer.
type rated struct {
	rate float64 // answers per second
	p99  time.Duration
	cost time.Duration // processor time of the server for each answer
}

// rateLimitConn is one connection. Nothing limits what the server sends, since the window
// is as wide as all that it will send.
type rateLimitConn struct {
	conn    net.Conn
	in      *bufio.Reader
	out     bytes.Buffer // frames that are to be written together
	framer  *http2.Framer
	headers []byte // of every request
	next    uint32 // the id of the next call
	decoder *hpack.Decoder
	status  string               // of the answer that is read
	asked   map[uint32]time.Time // calls under way
	answers map[uint32][]byte    // what was read of theirs
	bodies  [][]byte             // of requests, about one key each
	read    int                  // answers
}

const (
	wideWindow = 1 << 30
	// checkEvery is how many answers are read for one that is looked at whole; of the others
	// it is the status and the length. To parse each would take as long as to send it.
	checkEvery = 16
)

// rateLimitBodies returns the bodies of requests, with the prefix of gRPC, about each key.
func rateLimitBodies(b *testing.B) [][]byte {
	b.Helper()
	all := make([][]byte, manyKeys)
	for key := range all {
		body, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 5, 64), &ratelimitv3.RateLimitRequest{
			Domain:      "bench",
			Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: strconv.Itoa(key)}}}},
		})
		if err != nil {
			b.Fatal(err)
		}
		binary.BigEndian.PutUint32(body[1:], uint32(len(body)-5)) //nolint:gosec // some tens
		all[key] = body
	}
	return all
}

func newRateLimited(b *testing.B, address string, pid int) rateLimited {
	b.Helper()
	s := rateLimited{pid: pid}
	bodies := rateLimitBodies(b)
	for range 8 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		c := &rateLimitConn{conn: conn, in: bufio.NewReader(conn), next: 1, asked: map[uint32]time.Time{}, answers: map[uint32][]byte{}, bodies: bodies}
		c.framer = http2.NewFramer(&c.out, c.in)
		c.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
			if f.Name == "grpc-status" {
				c.status = f.Value
			}
		})
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		encoder.SetMaxDynamicTableSizeLimit(0) // every request has the same bytes
		for _, f := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"}, {":authority", address},
			{"content-type", "application/grpc"}, {"te", "trailers"},
		} {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				b.Fatal(err)
			}
		}
		c.headers = block.Bytes()
		c.out.WriteString(http2.ClientPreface)
		if err := errors.Join(c.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush}), c.framer.WriteWindowUpdate(0, wideWindow)); err != nil {
			b.Fatal(err)
		}
		s.conns = append(s.conns, c)
	}
	return s
}

// ask has 64 callers ask for a time, 8 on each connection. An answer without the limit is
// none of the service.
func (s rateLimited) ask(b *testing.B, lasting time.Duration) rated {
	b.Helper()
	var (
		mu    sync.Mutex
		all   []time.Duration
		group sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	began, before := time.Now(), processorTime(b, s.pid)
	for _, c := range s.conns {
		group.Go(func() {
			took, err := c.load(ctx, 8, began.Add(lasting))
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
	took := time.Since(began)
	slices.Sort(all)
	return rated{float64(len(all)) / took.Seconds(), percentile(all, 99), (processorTime(b, s.pid) - before) / time.Duration(len(all))}
}

// load keeps so many calls under way until a time, and returns how long each took.
func (c *rateLimitConn) load(ctx context.Context, callers int, until time.Time) (took []time.Duration, err error) {
	deadline, _ := ctx.Deadline()
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	for range callers {
		if err := c.call(); err != nil {
			return nil, err
		}
	}
	for len(c.asked) > 0 {
		if c.out.Len() > 0 && c.in.Buffered() == 0 {
			if _, err := io.Copy(c.conn, &c.out); err != nil {
				return took, err
			}
		}
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return took, err
		}
		ended, err := c.take(frame)
		if err != nil {
			return took, err
		}
		if ended == 0 {
			continue
		}
		now := time.Now()
		took = append(took, now.Sub(c.asked[ended]))
		delete(c.asked, ended)
		if now.Before(until) {
			if err := c.call(); err != nil {
				return took, err
			}
		}
	}
	return took, nil
}

// call writes a call about a random key.
func (c *rateLimitConn) call() error {
	id := c.next
	c.next += 2
	c.asked[id] = time.Now()
	return errors.Join(
		c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers, EndHeaders: true}),
		c.framer.WriteData(id, true, c.bodies[rand.IntN(len(c.bodies))]))
}

// take reads a frame and returns the call that it ends, 0 for none.
func (c *rateLimitConn) take(frame http2.Frame) (ended uint32, err error) {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return 0, c.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return 0, c.framer.WritePing(true, f.Data)
		}
	case *http2.DataFrame:
		c.answers[f.StreamID] = append(c.answers[f.StreamID], f.Data()...)
	case *http2.HeadersFrame:
		if _, err := c.decoder.Write(f.HeaderBlockFragment()); err != nil {
			return 0, err
		}
		if !f.StreamEnded() {
			return 0, nil
		}
		answer := c.answers[f.StreamID]
		delete(c.answers, f.StreamID)
		return f.StreamID, c.check(answer)
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		return 0, fmt.Errorf("the server sent %v", f)
	}
	return 0, nil
}

// check looks at one answer.
func (c *rateLimitConn) check(body []byte) error {
	if len(body) < 5 || c.status != "0" || len(body)-5 != int(binary.BigEndian.Uint32(body[1:])) {
		return fmt.Errorf("status %s with %d bytes", c.status, len(body))
	}
	if c.read++; c.read%checkEvery != 1 {
		return nil
	}
	var answer ratelimitv3.RateLimitResponse
	if err := proto.Unmarshal(body[5:], &answer); err != nil {
		return err
	}
	if len(answer.GetStatuses()) != 1 || answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit() != 1000 {
		return fmt.Errorf("answered %v", &answer)
	}
	return nil
}
