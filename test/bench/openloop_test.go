package bench_test

import (
	"bufio"
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// openLoop asks at a fixed rate, whether answers come or not, and returns the
// latencies in order. Each is counted from when its request was due, so that a
// stall counts for all that it kept waiting.
func openLoop(b *testing.B, address, prefix string, rate float64, connections int, lasting time.Duration) []time.Duration {
	b.Helper()
	var (
		mu    sync.Mutex
		all   []time.Duration
		group sync.WaitGroup
	)
	begin := time.Now().Add(100 * time.Millisecond)
	every := time.Duration(float64(connections) / rate * float64(time.Second))
	for c := range connections {
		group.Go(func() {
			took, err := pace(address, prefix, begin.Add(every*time.Duration(c)/time.Duration(connections)), every, lasting)
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	group.Wait()
	slices.Sort(all)
	return all
}

// pace asks over one connection, every so often from begin on.
func pace(address, prefix string, begin time.Time, every, lasting time.Duration) ([]time.Duration, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	answers := bufio.NewReaderSize(connection, 16<<10)
	var body, request []byte
	var took []time.Duration
	for due := begin; due.Before(begin.Add(lasting)); due = due.Add(every) {
		time.Sleep(time.Until(due))
		body = append(append(body[:0], `{"key":"`...), prefix...)
		body = append(strconv.AppendInt(body, rand.Int64N(manyKeys), 10), `","detail":"none"}`...)
		request = append(request[:0], "POST /v1/check HTTP/1.1\r\nHost: stint\r\nContent-Type: application/json\r\nContent-Length: "...)
		request = append(append(strconv.AppendInt(request, int64(len(body)), 10), "\r\n\r\n"...), body...)
		if _, err := connection.Write(request); err != nil {
			return nil, err
		}
		if err := skipAnswer(answers); err != nil {
			return nil, err
		}
		took = append(took, time.Since(due))
	}
	return took, nil
}

// skipAnswer reads one answer. It looks for its length only: what the load costs
// is taken from what it measures.
func skipAnswer(answers *bufio.Reader) error {
	length := -1
	for {
		line, err := answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= len("\r\n") {
			break
		}
		if text, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without a length")
	}
	_, err := answers.Discard(length)
	return err
}

// percentile returns the p-th of a hundred parts of what is in order.
func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return all[min(len(all)-1, int(p/100*float64(len(all))))]
}
