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

// grpcService is a method that is asked about keys.
type grpcService struct {
	path    string
	request func(key int) ([]byte, error) // a message about one of manyKeys
	check   func(answer []byte) error     // whether it is one about a limit of 1,000
}

// rateLimitService is Envoy's, of Stint and of envoyproxy/ratelimit.
var rateLimitService = grpcService{
	path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
	request: func(key int) ([]byte, error) {
		return proto.Marshal(&ratelimitv3.RateLimitRequest{
			Domain:      "bench",
			Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: strconv.Itoa(key)}}}},
		})
	},
	check: func(answer []byte) error {
		var read ratelimitv3.RateLimitResponse
		if err := proto.Unmarshal(answer, &read); err != nil {
			return err
		}
		if len(read.GetStatuses()) != 1 || read.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit() != 1000 {
			return fmt.Errorf("answered %v", &read)
		}
		return nil
	},
}

// grpcServer is asked over connections whose client does little but write and read frames,
// together those that come together: that of grpc-go would take more of the machine than the
// servers that are compared.
type grpcServer struct {
	pid   int
	conns []*grpcConn
}

// rated is how fast it answers.
type rated struct {
	rate float64 // answers per second
	p99  time.Duration
	cost time.Duration // processor time of the server for each answer
}

// grpcConn is one connection. Nothing limits what the server sends, since the window
// is as wide as all that it will send.
type grpcConn struct {
	service grpcService
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

// bodies returns the bodies of requests, with the prefix of gRPC, about each key.
func (s grpcService) bodies(b *testing.B) [][]byte {
	b.Helper()
	all := make([][]byte, manyKeys)
	for key := range all {
		message, err := s.request(key)
		if err != nil {
			b.Fatal(err)
		}
		prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // some tens
		all[key] = append(prefix, message...)
	}
	return all
}

// dial connects to a server of the service.
func (s grpcService) dial(b *testing.B, address string, pid int) grpcServer {
	b.Helper()
	server := grpcServer{pid: pid}
	bodies := s.bodies(b)
	for range 8 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		c := &grpcConn{service: s, conn: conn, in: bufio.NewReader(conn), next: 1, asked: map[uint32]time.Time{}, answers: map[uint32][]byte{}, bodies: bodies}
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
			{":method", "POST"}, {":scheme", "http"}, {":path", s.path}, {":authority", address},
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
		server.conns = append(server.conns, c)
	}
	return server
}

// ask has 64 callers ask for a time, 8 on each connection. An answer without the limit is
// none of the service.
func (s grpcServer) ask(b *testing.B, lasting time.Duration) rated {
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

// ratedPair is a server beside another, medians of all runs.
type ratedPair struct {
	own, other rated
	rate, p99  float64 // those of the one as a share of the other's
}

// beside asks both alternately.
func (s grpcServer) beside(b *testing.B, other grpcServer) ratedPair {
	b.Helper()
	s.ask(b, runTime) // warm up
	other.ask(b, runTime)
	var rates, latencies []float64
	var all, others []rated
	for range minPairs {
		one, two := s.ask(b, runTime), other.ask(b, runTime)
		all, others = append(all, one), append(others, two)
		rates, latencies = append(rates, one.rate/two.rate), append(latencies, float64(one.p99)/float64(two.p99))
	}
	return ratedPair{typicalRated(all), typicalRated(others), median(rates), median(latencies)}
}

// typicalRated returns the medians.
func typicalRated(all []rated) rated {
	return rated{
		rate: medianOf(all, func(one rated) float64 { return one.rate }),
		p99:  time.Duration(medianOf(all, func(one rated) float64 { return float64(one.p99) })),
		cost: time.Duration(medianOf(all, func(one rated) float64 { return float64(one.cost) })),
	}
}

// load keeps so many calls under way until a time, and returns how long each took.
func (c *grpcConn) load(ctx context.Context, callers int, until time.Time) (took []time.Duration, err error) {
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
func (c *grpcConn) call() error {
	id := c.next
	c.next += 2
	c.asked[id] = time.Now()
	return errors.Join(
		c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers, EndHeaders: true}),
		c.framer.WriteData(id, true, c.bodies[rand.IntN(len(c.bodies))]))
}

// take reads a frame and returns the call that it ends, 0 for none.
func (c *grpcConn) take(frame http2.Frame) (ended uint32, err error) {
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
func (c *grpcConn) check(body []byte) error {
	if len(body) < 5 || c.status != "0" || len(body)-5 != int(binary.BigEndian.Uint32(body[1:])) {
		return fmt.Errorf("status %s with %d bytes", c.status, len(body))
	}
	if c.read++; c.read%checkEvery != 1 {
		return nil
	}
	return c.service.check(body[5:])
}
