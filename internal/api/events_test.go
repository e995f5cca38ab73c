package api

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
)

// An event is encoded once, however many streams send it.
func TestStreamsShareEncodedEvents(t *testing.T) {
	h := &eventHandler{events: events.New(events.Options{})}
	first := h.events.Listen(events.Filter{}, "")
	var pieces []*httpserver.Piece
	publish := func(from, to int) (all []*events.Event) {
		for i := from; i < to; i++ {
			h.events.Publish(events.Event{Kind: events.Notice, Text: fmt.Sprint(i)})
			taken, _ := first.Take()
			all = append(all, taken...)
		}
		return all
	}
	all := publish(0, eventPieces)
	for _, e := range all {
		pieces = append(pieces, h.pieceOf(e))
	}
	for i, e := range all {
		if h.pieceOf(e) != pieces[i] {
			t.Fatalf("event %d is encoded again", i)
		}
	}
	for i, e := range publish(eventPieces, eventPieces+2) {
		if h.pieceOf(e) == pieces[i] {
			t.Errorf("the event %d is sent as an earlier one", eventPieces+i)
		}
		if again := h.pieceOf(all[i]); again == pieces[i] || again == h.pieceOf(e) {
			t.Errorf("the old event %d is sent as another one", i)
		}
	}
	notice := events.Event{Kind: events.Notice, Text: "for one listener"} // without an id
	if h.pieceOf(&notice) == h.pieceOf(&events.Event{Kind: events.Notice, Text: "for another"}) {
		t.Error("listeners share notices for one of them")
	}
}

// Streams with and without compression and with different filters send the same events, each in
// its order.
func TestConcurrentStreamsSendTheSameEvents(t *testing.T) {
	const streams, count, batch = 12, 300, 20 // a batch is less than the queue of a stream holds
	n := startNode(t)
	read := make(chan bool, streams*count/batch)
	for i := range streams {
		from := n.listen([]string{"", "?kind=decision", "?pattern=token:*"}[i%3], "Accept-Encoding: "+[]string{"gzip", "identity"}[i%2])
		if i%2 == 0 {
			unpacked, err := gzip.NewReader(from)
			if err != nil {
				t.Fatal(err)
			}
			from = bufio.NewReader(unpacked)
		}
		go func() {
			batches := 0
			defer func() { // also after a failure
				for ; batches < count/batch; batches++ {
					read <- true
				}
			}()
			last := ""
			for at := range count {
				id, e := next(t, from)
				if want := fmt.Sprintf("token:%d", at); e.Key != want || id == last {
					t.Errorf("stream %d: got %s %+v, want %s", i, id, e, want)
				}
				if last = id; (at+1)%batch == 0 {
					batches++
					read <- true
				}
			}
		}()
	}
	for i := range count {
		key, err := (keys.Parser{}).Key(fmt.Sprintf("token:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		n.events.Publish(events.Event{Kind: events.Decision, Key: key})
		if (i+1)%batch == 0 {
			for range streams {
				<-read
			}
		}
	}
}
