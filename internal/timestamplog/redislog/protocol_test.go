package redislog

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

var testStack = rules.Stack{{Limit: 1, Window: time.Second}, {Limit: 20, Window: time.Minute}}

func TestReadReplyRejectsMalformedReplies(t *testing.T) {
	const head = "\x00\x00\x00\x00\x00\x00\x10\x00"
	replies := map[string]any{
		"no reply":                      nil,
		"a number":                      int64(1),
		"an empty text":                 "",
		"half a time":                   head[:4],
		"an answer that does not exist": head + "\x08",
		"a refusal cut short":           head + "\x01\x01\x00",
		"a careful refusal cut short":   head + "\x05\x01" + strings.Repeat("\x00", 23),
		"a reservation cut short":       head + "\x04\x00\x00\x00",
		"a rule that the stack has not": head + "\x01\x02\x00\x00\x00\x01\x00\x00\x00\x01" + strings.Repeat("\x00", 20),
		"too few states":                head + "\x00" + strings.Repeat("\x00", 28),
		"more than was asked":           head + "\x00" + strings.Repeat("\x00", 30),
		"neither states nor a log":      head + "\x00" + "\x01" + strings.Repeat("\x00", 28),
		"a log without entries":         head + "\x00" + sentHead(0, 0, 0, 0),
		"a log cut short":               head + "\x00" + sentHead(3, 0, 0, 0) + strings.Repeat("\x00", 11),
		"a log with more behind it":     head + "\x00" + sentHead(3, 0, 0, 0) + strings.Repeat("\x00", 13),
		"more recent entries than fit":  head + "\x00" + sentHead(65, 0, 0, 0) + strings.Repeat("\x00", 260),
		"more entries than blocks hold": head + "\x00" + sentHead(64, 0, 1, 33) + strings.Repeat("\x00", 4*96),
		"a block that is not there":     head + "\x00" + sentHead(64, 1, 1, 3) + strings.Repeat("\x00", 4*96),
		"an empty array":                []any{},
		"an array with a number":        []any{head, int64(1)},
		"an array cut short":            []any{head + "\x00", "\x00" + strings.Repeat("\x00", 27)},
		"no blocks for old entries":     head + "\x00" + sentHead(64, 0, 0, 3) + strings.Repeat("\x00", 4*64),
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			it := item{rules: testStack, detail: true}
			if err := readReply(reply, []*item{&it}, new(serverClock)); !errors.Is(err, errReply) {
				t.Errorf("got %+v and the error %v, want errReply", it.result, err)
			}
		})
	}
}

// sentHead is the head of a log that is sent instead of states.
func sentHead(recent, top, room, old byte) string {
	return "S" + string([]byte{recent}) + strings.Repeat("\x00", 18) + string([]byte{0, top, 0, room, 0, 0, 0, old})
}

func TestReadReplyReadsASentLogWhole(t *testing.T) {
	it := item{rules: testStack, detail: true, cost: 1}
	reply := "\x00\x00\x00\x00\x00\x00\x10\x00" + "\x00" + sentHead(64, 0, 1, 32) + strings.Repeat("\x00", 4*96)
	if err := readReply(reply, []*item{&it}, new(serverClock)); err != nil || len(it.result.States) != 2 {
		t.Errorf("got %+v, %v", it.result, err)
	}
}

func TestReplyWithOnlyATimeMeansThatTheCallWasLate(t *testing.T) {
	var clock serverClock
	it := item{rules: testStack}
	if err := readReply("\x00\x00\x00\x00\x00\x00\x10\x00", []*item{&it}, &clock); !errors.Is(err, errLate) {
		t.Errorf("got %+v and the error %v, want errLate", it.result, err)
	}
	if clock.argument(time.Now()) == "" {
		t.Error("the time in it was not taken")
	}
}

func TestStackTextHasTheRetentionAndEachRule(t *testing.T) {
	q := timestamplog.Request{Rules: testStack, Retention: rules.Retention{Entries: 20, Window: time.Minute}}
	if got := stackText(&q); got != "20 60000 1 1000 20 60000" {
		t.Errorf("the stack is written %q", got)
	}
}

func TestReadReplyReadsEveryAnswerOfReserve(t *testing.T) {
	const now, reservation, long = 4096, 9_000_000_000_000, 62 * 24 * 3600 * 1000
	word := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }
	answers := []struct {
		what, reply string
		want        timestamplog.Result
	}{
		{"a reservation ahead", "\x04" + word(reservation), timestamplog.Result{Allowed: true, ReservedAt: reservation, Rule: -1}},
		{
			"one that was charged before", "\x03" + word(reservation) + "\x00\x00\x00\x07",
			timestamplog.Result{Allowed: true, ReservedAt: reservation, Replayed: true, ReplayedCost: 7, Rule: -1},
		},
		{
			"a rule that waits for its boundary, and longer for reservations ahead", "\x05\x01" + word(90_000) + word(50_000) + word(70_000),
			timestamplog.Result{RetryAt: now + 90_000, Rule: 1, Boundary: now + 50_000 - 60_000, RefusalValidUntil: now + 70_000},
		},
		{
			"a counter that waits for longer than 49 days", "\x05\x00" + word(long) + word(0) + word(0),
			timestamplog.Result{RetryAt: now + long, Rule: 0},
		},
		{
			"what is never allowed", "\x05\x00" + word(forever) + word(0) + word(forever),
			timestamplog.Result{RetryAt: timestamplog.Never, Rule: 0, RefusalValidUntil: timestamplog.Never},
		},
	}
	for _, c := range answers {
		t.Run(c.what, func(t *testing.T) {
			it := item{rules: testStack}
			c.want.Now = now
			if err := readReply(word(now)+c.reply, []*item{&it}, new(serverClock)); err != nil || !reflect.DeepEqual(it.result, c.want) {
				t.Errorf("got %+v, %v\nwant %+v", it.result, err, c.want)
			}
		})
	}
}

// The library is loaded on the server of the call's first key, in whatever form the call contains
// the name of the key.
func TestFirstKeyOfACallIsTheNameOfALog(t *testing.T) {
	stack, err := rules.ParseStack([]string{"1/s"})
	if err != nil {
		t.Fatal(err)
	}
	items := []*item{{name: "stint:a", rules: stack, cost: 1}, {name: "stint:b", rules: stack, cost: 1}}
	for form, call := range map[string]callForm{"decide": decideCall, "reserve": reserveCall} {
		if _, args := call.arguments("", items); firstKey(args) != "stint:a" {
			t.Errorf("%s: the first key is %q", form, firstKey(args))
		}
	}
	if got := firstKey([]any{"stint:c", 1}); got != "stint:c" {
		t.Errorf("the first key of a text is %q", got)
	}
}
