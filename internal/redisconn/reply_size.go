package redisconn

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// Bounds of a reply. go-redis allocates whatever length a reply announces, and Go ends a process
// that cannot allocate it. The largest expected replies, the times of a long log and Redis's own
// description of its commands, take less than a quarter of maxReply.
const (
	maxReply     = 32 << 20 // bytes of memory
	elementBytes = 32       // bytes for each element of an array
	maxReplyLine = 64 << 10
	maxNesting   = 16 // go-redis reads nested arrays recursively
)

// errReplySize ends a connection, since the rest of the reply would be read as other replies.
var errReplySize = errors.New("redis's answer is larger than any that was asked for")

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// bounded returns dial, but its connections fail if a reply is larger than maxReply.
func bounded(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		read := &boundedConn{Conn: c}
		if raw, is := c.(syscall.Conn); is { // not with TLS; go-redis uses the raw socket
			return boundedRawConn{read, raw}, nil
		}
		return read, nil
	}
}

type boundedConn struct {
	net.Conn
	replies replySizes
	refused bool
}

// boundedRawConn is a boundedConn whose raw socket go-redis uses.
type boundedRawConn struct {
	*boundedConn
	syscall.Conn
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.refused { // go-redis ignores a read error while it checks for push messages
		return 0, errReplySize
	}
	n, err := c.Conn.Read(p)
	if c.refused = !c.replies.fit(p[:n]); c.refused {
		return 0, errReplySize
	}
	return n, err
}

// replySizes tracks the sizes of the replies on one connection, by the lengths that they
// announce.
type replySizes struct {
	left    int             // bytes that the current reply may still take
	payload int             // bytes of the current string that are still to come
	line    []byte          // the incomplete line received so far
	open    [maxNesting]int // for each open array, the number of elements still to come
	depth   int             // number of open arrays
	lost    bool            // what was received is not a Redis reply; go-redis reports that
}

// fit reports whether the next bytes keep the reply within the bounds.
func (s *replySizes) fit(p []byte) bool {
	if s.lost {
		return len(p) == 0
	}
	for len(p) > 0 && !s.lost {
		if s.payload > 0 {
			n := min(s.payload, len(p))
			s.payload, p = s.payload-n, p[n:]
			if s.payload == 0 {
				s.ended()
			}
			continue
		}
		n := bytes.IndexByte(p, '\n') + 1
		if n == 0 {
			s.line = append(s.line, p...)
			return len(s.line) <= maxReplyLine
		}
		line := p[:n]
		if len(s.line) > 0 {
			s.line = append(s.line, line...)
			line, s.line = s.line, nil
		}
		if p = p[n:]; len(line) > maxReplyLine || !s.takes(line) {
			return false
		}
	}
	return true
}

// takes reports whether a line, which is a reply or the header of one, keeps within the bounds.
func (s *replySizes) takes(line []byte) bool {
	if s.depth == 0 {
		s.left = maxReply
	}
	s.left -= len(line)
	elements, more := 0, 0 // elements for each announced one, and additional ones
	switch line[0] {
	case '+', '-', ':', '_', ',', '#', '(':
		s.ended()
		return s.left >= 0
	case '$', '=', '!':
	case '*', '~', '>':
		elements = 1
	case '%':
		elements = 2
	case '|':
		elements, more = 2, 1 // attributes precede the reply to which they belong
	default:
		s.lost = true
		return true
	}
	n, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	switch {
	case errors.Is(err, strconv.ErrRange) || n > s.left:
		return false
	case err != nil || n < -1:
		s.lost = true
	case n < 0 && more == 0:
		s.ended()
	case elements == 0:
		s.left, s.payload = s.left-n, n+len("\r\n")
	default:
		n = max(n, 0)*elements + more
		s.left -= n * elementBytes
		return s.left >= 0 && s.opens(n)
	}
	return true
}

// opens begins an array of n elements.
func (s *replySizes) opens(n int) bool {
	if n == 0 {
		s.ended()
		return true
	}
	if s.depth == maxNesting {
		return false
	}
	s.open[s.depth] = n
	s.depth++
	return true
}

// ended records the end of a reply or of an element, and of the arrays that it completes.
func (s *replySizes) ended() {
	for s.depth > 0 {
		if s.open[s.depth-1]--; s.open[s.depth-1] > 0 {
			return
		}
		s.depth--
	}
}
