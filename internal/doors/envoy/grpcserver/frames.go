package grpcserver

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/net/http2"
)

// take processes a frame, or the error of reading it. It returns an error if the connection
// must be closed.
func (c *conn) take(frame http2.Frame, err error) error {
	if err != nil {
		return c.takeError(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isSet {
		if settings, is := frame.(*http2.SettingsFrame); !is || settings.IsAck() {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.isSet = true
		if err := c.net.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		err = c.takeHeaders(f)
	case *http2.DataFrame:
		err = c.takeData(f)
	case *http2.WindowUpdateFrame:
		err = c.takeWindow(f)
	case *http2.SettingsFrame:
		err = c.takeSettings(f)
	case *http2.PingFrame:
		err = c.takePing(f)
	case *http2.RSTStreamFrame:
		err = c.takeReset(f)
	case *http2.PriorityFrame:
		if err = c.credit.spend(); err == nil && f.StreamDep == f.StreamID {
			err = http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
		}
	case *http2.PushPromiseFrame:
		err = http2.ConnectionError(http2.ErrCodeProtocol)
	default:
		err = c.credit.spend()
	}
	if mistake, is := errors.AsType[http2.StreamError](err); is {
		return c.reset(mistake.StreamID, mistake.Code)
	}
	return err
}

// takeError processes the error of reading a frame.
func (c *conn) takeError(err error) error {
	if errors.Is(err, http2.ErrFrameTooLarge) {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	mistake, is := errors.AsType[http2.StreamError](err)
	if !is {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return io.EOF
		}
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if mistake.StreamID%2 == 1 && mistake.StreamID > c.lastID && !c.isFinal {
		c.lastID = mistake.StreamID
	}
	return c.reset(mistake.StreamID, mistake.Code)
}

// credit is how many frames without use for a call a connection may still send.
type credit int

// earn increases the credit; it is called for each response.
func (c *credit) earn() { *c = min(*c+answerCredit, maxCredit) }

// spend counts a frame without use for a call. A client that sends little else is disconnected.
func (c *credit) spend() error {
	if *c--; *c < 0 {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// reset resets a stream, because of an error of the client or for another reason.
func (c *conn) reset(id uint32, code http2.ErrCode) error {
	if err := c.credit.spend(); err != nil {
		return err
	}
	c.wasReset.add(id)
	if s := c.streams[id]; s != nil {
		s.end(fmt.Errorf("the stream was reset: %v", code))
	}
	return c.framer.WriteRSTStream(id, code)
}

// isIdle reports whether a stream has not been opened yet. After the final GOAWAY, streams that
// the client opens are not tracked.
func (c *conn) isIdle(id uint32) bool { return id%2 == 0 || id > c.lastID && !c.isFinal }

// recent are the streams that were reset last. The client may not know of that yet.
type recent struct {
	ids  [64]uint32
	next int
}

func (r *recent) add(id uint32) {
	r.ids[r.next%len(r.ids)] = id
	r.next++
}

func (r *recent) has(id uint32) bool { return slices.Contains(r.ids[:], id) }

func (c *conn) takeSettings(f *http2.SettingsFrame) error {
	if err := c.credit.spend(); err != nil || f.IsAck() {
		return err
	}
	if f.NumSettings() > maxSettings {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	err := f.ForeachSetting(func(setting http2.Setting) error {
		if err := setting.Valid(); err != nil {
			return err
		}
		if setting.ID == http2.SettingInitialWindowSize {
			more := int64(setting.Val) - c.initial
			c.initial = int64(setting.Val)
			for _, s := range c.streams {
				if s.window += more; s.window > maxWindow {
					return http2.ConnectionError(http2.ErrCodeFlowControl)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.framer.WriteSettingsAck()
	c.sendBlocked() // after the acknowledgement, so that the client knows the settings in use
	return err
}

const maxWindow = 1<<31 - 1

func (c *conn) takeWindow(f *http2.WindowUpdateFrame) error {
	if err := c.credit.spend(); err != nil {
		return err
	}
	if f.StreamID == 0 {
		if c.window += int64(f.Increment); c.window > maxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
	} else {
		s := c.streams[f.StreamID]
		if s == nil {
			if c.isIdle(f.StreamID) {
				return http2.ConnectionError(http2.ErrCodeProtocol)
			}
			return nil
		}
		if s.window += int64(f.Increment); s.window > maxWindow {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
		}
		if s.isBlocked && c.window > 0 && c.outRoom() > 0 {
			s.unblock()
			s.send()
		}
		return nil
	}
	c.sendBlocked()
	return nil
}

// takePing answers a PING. As in grpc-go, a client may send PINGs frequently only while it
// receives responses.
func (c *conn) takePing(f *http2.PingFrame) error {
	if f.IsAck() {
		if f.Data == drainPing {
			c.drained()
		}
		return c.credit.spend()
	}
	now := time.Now()
	switch {
	case c.answered:
		c.answered, c.strikes = false, 0
	case now.Sub(c.lastPing) < c.server.o.MinPing:
		c.strikes++
	}
	c.lastPing = now
	if c.strikes > maxStrikes {
		_ = c.framer.WriteGoAway(c.lastID, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings")) // a buffer never fails
		c.flush()
		c.finishSending()
		return io.EOF
	}
	if err := c.credit.spend(); err != nil {
		return err
	}
	return c.framer.WritePing(true, f.Data)
}

func (c *conn) takeReset(f *http2.RSTStreamFrame) error {
	if c.isIdle(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := c.streams[f.StreamID]; s != nil {
		s.end(errors.New("the client gave up"))
	}
	return c.credit.spend()
}

// takeHeaders opens a stream, or processes its trailers.
func (c *conn) takeHeaders(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	if id%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := c.streams[id]; s != nil {
		return s.takeTrailers(f)
	}
	switch {
	case c.isFinal && id > c.lastID:
		return c.credit.spend() // the last GOAWAY announced that
	case id > c.lastID:
	case c.wasReset.has(id):
		return c.credit.spend()
	default:
		return http2.ConnectionError(http2.ErrCodeStreamClosed)
	}
	c.lastID = id
	mistake := http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	switch {
	case f.HasPriority() && f.Priority.StreamDep == id:
		return mistake
	case f.Truncated:
		mistake.Code = http2.ErrCodeFrameSize
		return mistake
	case len(c.streams) >= c.server.o.MaxStreams:
		mistake.Code = http2.ErrCodeRefusedStream
		return mistake
	}
	s := newStream(c, id)
	if !s.readHeaders(f) {
		s.recycle()
		return mistake
	}
	c.streams[id] = s
	if err := s.keep(memoryOf(s.fields)); err != nil {
		return err
	}
	switch {
	case f.StreamEnded():
		return s.finishRequest()
	case s.streaming && s.length < 0:
		return s.startPlain()
	}
	return nil
}

// smallData is the size in bytes below which a part of a request costs credit, unless it is the
// last part.
const smallData = 1 << 10

// takeData processes a part of a request.
func (c *conn) takeData(f *http2.DataFrame) error {
	size := int(f.Length)
	if c.received += size; c.received > connWindow/2 {
		// Acknowledge all of it at once. The streams and maxBuffered bound what is kept.
		if err := c.framer.WriteWindowUpdate(0, uint32(c.received)); err != nil { //nolint:gosec // bounded
			return err
		}
		c.received = 0
	}
	s := c.streams[f.StreamID]
	switch {
	case s == nil && c.isIdle(f.StreamID):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case s == nil && (c.wasReset.has(f.StreamID) || c.isFinal):
		return c.credit.spend()
	case s == nil || s.requested:
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed}
	case s.gone:
		return c.credit.spend()
	}
	if len(f.Data()) < smallData && !f.StreamEnded() {
		if err := c.credit.spend(); err != nil {
			return err
		}
	}
	return s.takeData(f, size)
}
