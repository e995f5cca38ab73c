package redislog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// arguments returns the number of keys of a call of stint_decide, and its keys and arguments.
func arguments(now string, items []*item) (keys int, args []any) {
	packed, stacks := packRequests(items)
	args = append(appendNames(make([]any, 0, len(items)+2+len(stacks)), items), now, packed)
	return len(items), stacks.append(args)
}

// packRequests returns what stint_decide reads about each request, and the stacks that this
// refers to.
func packRequests(items []*item) (packed []byte, stacks stackList) {
	packed = make([]byte, 0, 4*len(items))
	for _, it := range items {
		packed = append(packed, stacks.number(it), byte(it.cost>>8), byte(it.cost), flags(it))
	}
	return packed, stacks
}

// appendNames appends the names of the logs.
func appendNames(args []any, items []*item) []any {
	for _, it := range items {
		args = append(args, &it.name) // a pointer needs no allocation
	}
	return args
}

// acrossArguments does the same for a call of stint_across, which has no keys.
func acrossArguments(now string, items []*item) (keys int, args []any) {
	packed, stacks := packRequests(items)
	args = append(make([]any, 0, len(items)+2+len(stacks)), now, packed)
	return 0, appendNames(stacks.append(args), items)
}

// reservationsArguments does the same for a call of stint_reserve. together means that all
// requests are allowed or none.
func reservationsArguments(now string, items []*item, together bool) (keys int, args []any) {
	args = make([]any, 0, 2*len(items)+4)
	var packed []byte
	var stacks stackList
	for _, it := range items {
		args = append(args, &it.name)
		if it.id != "" {
			args = append(args, idsName(it.name))
		}
		packed = binary.BigEndian.AppendUint64(append(packed, stacks.number(it)), it.cost)
		packed = binary.BigEndian.AppendUint32(append(packed, flags(it)), uint32(it.maxWait))
		packed = append(append(packed, byte(len(it.id))), it.id...)
		if it.value != 0 {
			packed = fmt.Appendf(packed, "%016x", it.value)
		}
		if it.hold > 0 {
			packed = binary.BigEndian.AppendUint32(packed, uint32(it.hold)) //nolint:gosec // at most algorithms.MaxHold
			packed = append(append(packed, byte(len(it.source))), it.source...)
		}
	}
	mode := ""
	if together {
		mode = "together"
	}
	return len(args), stacks.append(append(args, now, mode, packed))
}

// stackList has each stack of a call once.
type stackList []*string

// number returns the position of the item's stack in the list, counted from 1. It appends a new
// stack.
func (s *stackList) number(it *item) byte {
	for i, stack := range *s {
		if *stack == it.stack {
			return byte(i + 1)
		}
	}
	*s = append(*s, &it.stack)
	return byte(len(*s))
}

// append appends the stacks to arguments.
func (s stackList) append(args []any) []any {
	for _, stack := range s {
		args = append(args, stack)
	}
	return args
}

func flags(it *item) byte {
	var f byte
	if it.peek || it.uncharged {
		f |= 1
	}
	if it.detail {
		f |= 2
	}
	if it.always {
		f |= 4
	}
	if it.uncharged {
		f |= 8
	}
	if it.value != 0 {
		f |= 16
	}
	if it.hold > 0 {
		f |= 32
	}
	return f
}

// The answers to a request in a reply.
const (
	saysAllowed     = 0
	saysRefused     = 1
	saysForeign     = 2
	saysReplayed    = 3
	saysReservation = 4
	saysWaits       = 5
	saysDenied      = 6
	saysElsewhere   = 7
)

// saysTooManyHolds is set in the index of the rule that refuses if the log has as many open holds as one
// may have.
const saysTooManyHolds = 0x80

// saysWritten precedes states. A log that is sent instead of states begins with logMagic.
const saysWritten = 0

// Infinite waits in a reply, in 4 bytes and in 8 bytes.
const (
	never   = 1<<32 - 1
	forever = 1 << 53
)

var errReply = errors.New("redis's answer is not one of the function library's")

// readReply fills in the results of items from a reply of stint_decide or stint_reserve, and
// passes the time in the reply to clock. The error is errLate if the call reached the primary
// too late.
func readReply(reply any, items []*item, clock *serverClock) error {
	text, err := replyText(reply)
	if err != nil {
		return err
	}
	r := reader{rest: text}
	now := int64(binary.BigEndian.Uint64(r.next(8)))
	if !r.short {
		clock.observe(now)
	}
	if !r.short && len(r.rest) == 0 && len(items) > 0 {
		return errLate
	}
	for _, it := range items {
		it.result = r.result(now, it)
	}
	if r.short || len(r.rest) != 0 {
		return errReply
	}
	return nil
}

// replyText returns the text of a reply, which is a string or an array of the parts of one.
func replyText(reply any) ([]byte, error) {
	switch reply := reply.(type) {
	case string:
		return []byte(reply), nil
	case []any:
		size := 0
		for _, part := range reply {
			text, _ := part.(string)
			size += len(text)
		}
		whole := make([]byte, 0, size)
		for _, part := range reply {
			text, is := part.(string)
			if !is {
				return nil, fmt.Errorf("%w: a part is a %T", errReply, part)
			}
			whole = append(whole, text...)
		}
		return whole, nil
	}
	return nil, fmt.Errorf("%w: %T", errReply, reply)
}

// reader decodes a reply.
type reader struct {
	rest  []byte
	short bool // the reply was shorter than expected
}

var zeros [8]byte

// next returns the next n bytes, at most 8, or zeros if the reply is too short.
func (r *reader) next(n int) []byte {
	if len(r.rest) < n {
		r.short, r.rest = true, nil
		return zeros[:n]
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) result(now int64, it *item) timestamplog.Result {
	result := timestamplog.Result{Now: now, Rule: -1}
	switch says := r.next(1)[0]; says {
	case saysAllowed:
		result.Allowed, result.ReservedAt = true, now
	case saysReservation, saysReplayed:
		result.Allowed, result.Replayed = true, says == saysReplayed
		result.ReservedAt = int64(binary.BigEndian.Uint64(r.next(8)))
		if result.Replayed {
			result.ReplayedCost = int(binary.BigEndian.Uint32(r.next(4)))
		}
	case saysRefused, saysWaits:
		r.refusal(&result, it.rules, says == saysWaits)
		if r.short {
			return result
		}
	case saysForeign:
		result.Err = unanswerable(fmt.Errorf("%w: %q", timestamplog.ErrForeign, it.name))
		return result
	case saysElsewhere:
		it.elsewhere = true
		result.Err = unanswerable(errElsewhere)
		return result
	case saysDenied:
		result.Err = unanswerable(timestamplog.ErrDenied)
		return result
	default:
		r.short = true
		return result
	}
	if it.detail && len(it.rules) > 0 {
		result.States = make([]timestamplog.RuleState, len(it.rules))
		if log := r.sentLog(now); log.count > 0 {
			log.describe(it, &result)
		} else {
			r.states(it, &result)
		}
	}
	return result
}

// states reads the states that the function library has computed.
func (r *reader) states(it *item, result *timestamplog.Result) {
	if r.next(1)[0] != saysWritten {
		r.short = true
		return
	}
	for i := range result.States {
		if it.counted {
			result.States[i].Remaining = int(binary.BigEndian.Uint64(r.next(8))) //nolint:gosec // at most algorithms.MaxAmount
		} else {
			result.States[i].Remaining = int(binary.BigEndian.Uint32(r.next(4)))
		}
		result.States[i].RetryAfterMS = r.waitOf(it.counted)
		if it.counted {
			result.States[i].ResetAfterMS = int64(binary.BigEndian.Uint64(r.next(8)))
		}
	}
	result.StatesValidUntil = after(result.Now, r.wait())
	if !it.counted {
		setResets(result.States, it.rules, result.Now, int64(binary.BigEndian.Uint64(r.next(8))))
	}
}

// setResets fills in when each rule of a log is fully restored, which is when the newest entry
// leaves its window.
func setResets(states []timestamplog.RuleState, stack rules.Stack, now, newest int64) {
	for i, rule := range stack {
		if newest > 0 && rule.Limit > 0 {
			states[i].ResetAfterMS = max(0, newest+rule.WindowMS()-now)
		}
	}
}

// refusal reads a refusal. In a refusal with saysWaits, the rule's own wait for the boundary
// follows the wait; otherwise both are the same.
func (r *reader) refusal(result *timestamplog.Result, stack rules.Stack, waits bool) {
	by := r.next(1)[0]
	result.Rule, result.TooManyHolds = int(by&^saysTooManyHolds), by&saysTooManyHolds != 0
	wait := r.waitOf(waits)
	own := wait
	if waits {
		own = r.waitOf(waits)
	}
	lasts := r.waitOf(waits)
	if result.Rule >= len(stack) {
		r.short = true
		return
	}
	result.RetryAt, result.RefusalValidUntil = after(result.Now, wait), after(result.Now, lasts)
	if wait != timestamplog.Never && own != 0 {
		result.Boundary = result.Now + own - stack[result.Rule].WindowMS()
	}
}

// after returns the time that is a wait after now, 0 for no wait.
func after(now, wait int64) int64 {
	if wait == timestamplog.Never || wait == 0 {
		return wait
	}
	return now + wait
}

// waitOf reads a wait, in 8 bytes if long is set, otherwise in 4.
func (r *reader) waitOf(long bool) int64 {
	if !long {
		return r.wait()
	}
	if wait := binary.BigEndian.Uint64(r.next(8)); wait < forever {
		return int64(wait)
	}
	return timestamplog.Never
}

func (r *reader) wait() int64 {
	wait := int64(binary.BigEndian.Uint32(r.next(4)))
	if wait == never {
		return timestamplog.Never
	}
	return wait
}
