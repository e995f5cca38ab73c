package httpserver

import (
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

// pprofPath is the path prefix of the process's profiles.
const pprofPath = "/debug/pprof/"

// maxProfile is the longest profile in seconds. The response is sent when the profile ends.
const maxProfile = 60

// PprofRoutes returns the routes for profiles of this process, in the format of go tool pprof.
// They need the access of an admin. The route for the command line is left out.
func PprofRoutes() []Route {
	profile, trace := adaptor.HTTPHandlerFunc(pprof.Profile), adaptor.HTTPHandlerFunc(pprof.Trace)
	running := new(sync.Mutex) // the process can have one profile of each kind at a time
	routes := []Route{pprofRoute("profile", bounded(running, profile)), pprofRoute("trace", bounded(running, trace))}
	for _, name := range []string{"allocs", "goroutine", "heap", "mutex", "block", "threadcreate"} {
		answer := adaptor.HTTPHandler(pprof.Handler(name))
		routes = append(routes, pprofRoute(name, bounded(running, answer)))
	}
	return routes
}

func pprofRoute(name string, h Handler) Route {
	return Route{Listener: Admin, Method: http.MethodGet, Path: pprofPath + name, Access: identity.Admin, Handler: h}
}

// bounded refuses a profile that takes longer than maxProfile, or that starts while another
// runs.
func bounded(running *sync.Mutex, answer fiber.Handler) Handler {
	return func(c *Call) error {
		if text := c.Query("seconds"); text != "" {
			if seconds, err := strconv.Atoi(text); err != nil || seconds < 1 || seconds > maxProfile {
				return fault.Field("seconds", "must be a whole number from 1 to %d", maxProfile)
			}
		}
		if !running.TryLock() {
			return fault.New(fault.Conflict, "Another profile is running; wait until it ends.")
		}
		defer running.Unlock()
		return answer(c.Ctx)
	}
}

// MetricsRoute returns the route for Prometheus, which needs a token with the scope read.
func MetricsRoute(h http.Handler) Route {
	answer := adaptor.HTTPHandler(h)
	return Route{Listener: Admin, Method: http.MethodGet, Path: "/metrics", Access: identity.Read,
		Handler: func(c *Call) error { return answer(c.Ctx) }}
}
