package redislog_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// calledByLibrary returns the names of all commands in the text of the function library, other
// than TIME, which every function calls first.
func calledByLibrary() []string {
	var names []string
	for _, match := range regexp.MustCompile(`\b(?:call|try)\('([A-Z]+)'`).FindAllStringSubmatch(redislog.LibraryText, -1) {
		if name := match[1]; name != "TIME" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func TestDocumentedRightsAreTheMinimum(t *testing.T) {
	text, err := os.ReadFile("../../../docs/REDIS.md")
	must(t, err)
	_, list, _ := strings.Cut(string(text), "ACL SETUSER stint on")
	list, _, _ = strings.Cut(list, "```")
	var documented, needed []string
	for _, right := range strings.Fields(list) {
		if strings.HasPrefix(right, "+") {
			documented = append(documented, right)
		}
	}
	for _, right := range minRights {
		if strings.HasPrefix(right, "+") {
			needed = append(needed, right)
		}
	}
	slices.Sort(documented)
	slices.Sort(needed)
	if !slices.Equal(documented, needed) {
		t.Errorf("docs/REDIS.md lists the rights %q, want %q", documented, needed)
	}
}

func TestCheckNamesEachMissingRightToACommandOfTheLibrary(t *testing.T) {
	server := servers.DedicatedRedis(t)
	admin := connect(t, server)
	url := userURL(server)
	commands := calledByLibrary()
	if len(commands) < 15 {
		t.Fatalf("the library calls only %v", commands)
	}
	for _, command := range commands {
		right := "+" + strings.ToLower(command)
		if !slices.Contains(minRights, right) {
			t.Errorf("minRights lacks %s", right)
		}
		giveRights(t, admin, right)
		_, err := check(t, url, redislog.CheckOptions{})
		wantConfigError(t, err, "it also needs "+right+";")
	}
	giveRights(t, admin, "+zadd", "+getrange")
	_, err := check(t, url, redislog.CheckOptions{})
	wantConfigError(t, err, "it also needs +getrange +zadd;")
	giveRights(t, admin)
	if _, err := check(t, url, redislog.CheckOptions{}); err != nil {
		t.Errorf("with all rights: %v", err)
	}
}

// userURL is the URL of a server for the user stint.
func userURL(server *servers.RedisServer) string {
	return strings.Replace(server.URL, "://", "://stint:x@", 1)
}

// giveRights gives the user stint the minimum rights without some of them.
func giveRights(t *testing.T, admin redis.UniversalClient, without ...string) {
	t.Helper()
	command := []any{"ACL", "SETUSER", "stint", "reset"}
	for _, right := range minRights {
		if !slices.Contains(without, right) && !strings.HasPrefix(right, ">") {
			command = append(command, right)
		}
	}
	must(t, admin.Do(t.Context(), append(command, ">x")...).Err())
}

// A right may be taken away while nodes run.
func TestRevokedRightFailsOnlyTheRequestsThatNeedIt(t *testing.T) {
	server := servers.DedicatedRedis(t)
	admin := connect(t, server)
	giveRights(t, admin)
	var events outageEvents
	var reported []error
	log, err := redislog.Open(userURL(server), redislog.Options{
		OnOutage: events.add, OnRequestError: func(err error) { reported = append(reported, err) },
	})
	must(t, err)
	t.Cleanup(func() { log.Close() })
	plain, counter, set := policy(t, 1, "9/h"), policy(t, 2, "9/h"), policy(t, 3, "9/h")
	counter.Algorithm, set.Algorithm = algorithms.TokenBucket, algorithms.SortedSetLog
	withID := timestamplog.RequestOf(plain, address, 1)
	withID.ID = "an id"
	for _, c := range []struct {
		right   string
		request timestamplog.Request
	}{
		{"+zmscore", withID},
		{"+get", timestamplog.RequestOf(counter, address, 1)},
		{"+zrange", timestamplog.RequestOf(set, address, 1)},
		{"+getrange", timestamplog.RequestOf(plain, address, 1)},
	} {
		giveRights(t, admin, c.right)
		reported = nil
		for range 2 * redislog.FailureThreshold {
			beside := counter
			if c.right == "+get" {
				beside = plain
			}
			requests := []timestamplog.Request{c.request, timestamplog.RequestOf(beside, "token:beside", 1)}
			results := make([]timestamplog.Result, len(requests))
			log.Decide(t.Context(), requests, results)
			if err := results[0].Err; !errors.Is(err, timestamplog.ErrDenied) || !errors.Is(err, timestamplog.ErrUnreachable) {
				t.Errorf("without %s: got %+v, want ErrDenied", c.right, results[0])
			}
			if results[1].Err != nil {
				t.Errorf("without %s the request beside it got %v", c.right, results[1].Err)
			}
		}
		if err := log.DecideAll(t.Context(), []timestamplog.Request{c.request}, make([]timestamplog.Result, 1)); !errors.Is(err, timestamplog.ErrDenied) {
			t.Errorf("without %s DecideAll returned %v, want ErrDenied", c.right, err)
		}
		if want := 2*redislog.FailureThreshold + 1; len(reported) != want || !errors.Is(reported[0], timestamplog.ErrDenied) {
			t.Errorf("without %s %d errors were reported, want %d of ErrDenied: %v", c.right, len(reported), want, reported)
		}
	}
	if len(events.list()) > 0 {
		t.Errorf("got the outages %+v, want none", events.list())
	}
}
