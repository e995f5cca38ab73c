package grpcserver

import (
	"errors"
	"testing"

	"golang.org/x/net/http2"

	"github.com/stint-dev/stint/test/servers"
)

// wholeFrames returns the complete frames of b.
func wholeFrames(b []byte) []byte {
	const header = 9
	end := 0
	for end+header <= len(b) {
		next := end + header + int(b[end])<<16 + int(b[end+1])<<8 + int(b[end+2])
		if next > len(b) {
			break
		}
		end = next
	}
	return b[:end]
}

// Whatever frames a client sends, the server neither panics nor keeps the connection or bytes of
// it, and a call after them is answered or the connection has ended.
func FuzzFrames(f *testing.F) {
	seed := &client{TB: f}
	seed.framer = http2.NewFramer(&seed.out, nil)
	seed.call(1, "hello")
	seed.headers(3, false)
	seed.must(errors.Join(seed.framer.WriteData(3, false, []byte{0, 0}), seed.framer.WriteRSTStream(3, 0), seed.framer.WritePing(true, drainPing),
		seed.framer.WriteWindowUpdate(0, 1), seed.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})))
	f.Add(seed.out.Bytes())
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, frames []byte) {
		const last = 1<<31 - 1
		var c *client
		t.Cleanup(func() { servers.Await(t, "no bytes are kept", func() bool { return c.server.buffered.Load() == 0 }) })
		c = connect(t, echo)
		c.begin()
		c.out.Write(wholeFrames(frames)) // the call would become part of an incomplete frame
		c.call(last, "hello")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				frame, err := c.framer.ReadFrame()
				_, isStream := errors.AsType[http2.StreamError](err)
				if c.checkBounds(); err != nil && !isStream || err == nil && frame.Header().StreamID == last {
					return // it is answered, or the connection has ended
				}
			}
		}()
		_ = c.send() // it may end before all is sent
		<-ended
	})
}
