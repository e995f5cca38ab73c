package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	holdConnections = 8
	// Many short rounds: the cost of a request differs by a tenth from one second to the next.
	holdRounds = 25
	holdTime   = 800 * time.Millisecond
)

// holding measures what a hold and its settlement cost a node together, beside a plain check: both by the same
// client, in rounds that alternate.
func holding(b *testing.B, r *report) {
	n := startNode(b, build(b))
	n.furnish(b)
	n.admit(b, http.MethodPut, "/v1/policies/held", `{"match":["held:*"],"unit":"tokens","rules":["10M/1m","100M/1d"],"hold":"10m"}`)
	r.begin("A hold and its settlement over HTTP", fmt.Sprintf("Processor time of the node, embedded; %d connections, 100,000 keys, %d runs of %s, alternating; medians.", holdConnections, holdRounds, holdTime))
	ask := func(settled bool) exchanger {
		return func(connection io.Writer, answers *bufio.Reader, key int) error {
			return holdOnce(connection, answers, key, settled)
		}
	}
	checks, holds, ratio := compare(b, n, n, ask(false), ask(true))
	r.atMost("of a check", ratio, 2.2, "%.2f", fmt.Sprintf("(%.1f of %.1f µs)", holds, checks))
}

// exchanger asks a node about one of manyKeys keys over a connection.
type exchanger func(connection io.Writer, answers *bufio.Reader, key int) error

// compare measures the processor time in µs that nodes need for what is asked of them, in rounds that alternate, and
// returns the medians, and that of the ratios.
func compare(b *testing.B, one, other node, ask, askOther exchanger) (of, ofOther, ratio float64) {
	b.Helper()
	one.spend(b, ask, holdTime) // warms up
	other.spend(b, askOther, holdTime)
	var all, others, ratios []float64
	for range holdRounds {
		a, z := one.spend(b, ask, holdTime), other.spend(b, askOther, holdTime)
		all, others, ratios = append(all, a), append(others, z), append(ratios, z/a)
	}
	return median(all), median(others), median(ratios)
}

// spend asks for a time over kept connections, and returns the node's processor time for each in µs.
func (n node) spend(b *testing.B, ask exchanger, lasting time.Duration) float64 {
	b.Helper()
	var asked atomic.Int64
	var group sync.WaitGroup
	before, ends := processorTime(b, n.pid), time.Now().Add(lasting)
	for c := range holdConnections {
		group.Go(func() {
			connection, err := net.Dial("tcp", n.checks) //nolint:noctx // it ends with the load
			if err != nil {
				b.Error(err)
				return
			}
			defer connection.Close()
			answers := bufio.NewReader(connection)
			for i := c; time.Now().Before(ends); i += holdConnections {
				if err := ask(connection, answers, i%manyKeys); err != nil {
					b.Error(err)
					return
				}
				asked.Add(1)
			}
		})
	}
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return micros(processorTime(b, n.pid)-before) / float64(asked.Load())
}

// holdOnce sends one check, and settles what it holds.
func holdOnce(connection io.Writer, answers *bufio.Reader, key int, settled bool) error {
	name := "allow"
	if settled {
		name = "held"
	}
	answer, err := exchange(connection, answers, "/v1/check", fmt.Sprintf(`{"key":"%s:%d","detail":"none"}`, name, key))
	if err != nil || !settled {
		return err
	}
	_, rest, found := bytes.Cut(answer, []byte(`"handle":"`))
	handle, _, _ := bytes.Cut(rest, []byte(`"`))
	if !found {
		return fmt.Errorf("nothing is held: %s", answer)
	}
	answer, err = exchange(connection, answers, "/v1/holds/"+string(handle), `{"cost":1}`)
	if err == nil && !bytes.Contains(answer, []byte(`"settled"`)) {
		return fmt.Errorf("not settled: %s", answer)
	}
	return err
}

// exchange posts a body, and returns that of an answer of 200.
func exchange(connection io.Writer, answers *bufio.Reader, path, body string) ([]byte, error) {
	if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %s", path, response.StatusCode, answer)
	}
	return answer, err
}
