package offences_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// distantPostgres is a Postgres behind a slow connection: what is sent to it
// arrives late. It counts the statements.
type distantPostgres struct {
	url        string
	to         string
	delay      time.Duration
	statements atomic.Int64
}

// distant puts a proxy in front of a Postgres whose round trips take delay.
func distant(t testing.TB, target string, delay time.Duration) *distantPostgres {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &distantPostgres{to: u.Host, delay: delay}
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable") // the proxy reads what is sent
	u.RawQuery = query.Encode()
	d.url = u.String()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { d.serve(client) })
		}
	})
	t.Cleanup(func() { listener.Close() }) // the connections end with the stores, which close later or before
	return d
}

func (d *distantPostgres) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", d.to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	type piece struct {
		at    time.Time
		bytes []byte
	}
	pieces := make(chan piece, 1<<16)
	go func() {
		defer server.Close()
		for p := range pieces {
			time.Sleep(time.Until(p.at.Add(d.delay)))
			if _, err := server.Write(p.bytes); err != nil {
				return
			}
		}
	}()
	defer close(pieces)
	for first := true; ; first = false {
		message, err := readMessage(client, first)
		if err != nil {
			return
		}
		// Execute. Statements without parameters, as BEGIN and a pool's pings, use another message.
		if !first && message[0] == 'E' {
			d.statements.Add(1)
		}
		select {
		case pieces <- piece{time.Now(), message}:
		default: // the server does not read any more
			return
		}
	}
}

// readMessage reads one message of the protocol; the first has no type.
func readMessage(from io.Reader, first bool) ([]byte, error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(head[len(head)-4:]))
	message := make([]byte, len(head)+length-4)
	copy(message, head)
	_, err := io.ReadFull(from, message[len(head):])
	return message, err
}
