package httpserver_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// Whoever may send checks can fill the memory with refused keys, none of which is forgotten.
func TestThrottleCountsWhileTheMemoryForLogsIsFull(t *testing.T) {
	log := memlog.New(memlog.Options{
		MaxBytes: 64 << 10, Describe: func(timestamplog.LogID) ([]*rules.Policy, bool) { return nil, true },
	})
	ctx := t.Context()
	hourly, err := rules.ParseStack([]string{"1/h"})
	if err != nil {
		t.Fatal(err)
	}
	flood, results := timestamplog.Request{Rules: hourly, Retention: rules.Retention{}.Cover(hourly), Cost: 1}, make([]timestamplog.Result, 1)
	for i := 0; log.Memory().Unkept == 0; i++ {
		flood.LogID = timestamplog.LogID{Policy: 1, Key: "ip:" + address(i).String()}
		log.Decide(ctx, []timestamplog.Request{flood}, results)
	}
	throttle := httpserver.NewThrottle(httpserver.ThrottleOptions{Shared: log})
	passed := map[string]int{}
	for range 60 {
		if throttle.Login(ctx, address(0), "ada") == 0 {
			passed["passwords"]++
		}
		if throttle.Code(ctx, address(1), "bob") == 0 {
			passed["codes"]++
		}
		if throttle.BadToken(ctx, address(2)) == 0 {
			passed["tokens"]++
		}
	}
	if passed["passwords"] != 5 || passed["codes"] != 5 || passed["tokens"] != 20 {
		t.Errorf("%v guesses passed, want 5 passwords, 5 codes and 20 tokens", passed)
	}
}
