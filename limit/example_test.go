package limit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/limit"
)

func Example() {
	api, err := limit.New(limit.Memory(), "api", "3/1h", "10/1d")
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		result, err := api.Allow(context.Background(), "user:alice")
		switch {
		case err != nil:
			log.Fatal(err) // Redis does not answer, or the key is not valid: decide yourself
		case result.Allowed:
			fmt.Println("allowed")
		default:
			fmt.Println("refused by", result.Rule, "for most of an hour:", result.RetryAfter > 50*time.Minute)
		}
	}
	// Output:
	// allowed
	// allowed
	// allowed
	// refused by 3/1h for most of an hour: true
}

func ExampleLimiter_Wait() {
	upstream, err := limit.New(limit.Memory(), "upstream", "20/1s", "600/1m")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		if err := upstream.Wait(ctx, "host:api.example.com"); err != nil {
			log.Fatal(err) // a *limit.Refused if the wait would be longer than ctx lasts
		}
		fmt.Println("called")
	}
	// Output:
	// called
	// called
	// called
}

func ExampleLimiter_Hold() {
	budget, err := limit.New(limit.Memory(), "tokens", "1000 tokens/1d", "2 concurrent")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	hold, err := budget.Hold(ctx, "team:search", 800, 5*time.Minute) // what the answer may take at most
	if err != nil {
		log.Fatal(err)
	}
	var refused *limit.Refused
	if _, err := budget.Hold(ctx, "team:search", 800, 5*time.Minute); errors.As(err, &refused) {
		fmt.Println("another 800 are refused while 800 are held")
	}
	if _, err := hold.Settle(ctx, 150); err != nil { // what it took
		log.Fatal(err)
	}
	if _, err := budget.Hold(ctx, "team:search", 800, 5*time.Minute); err == nil {
		fmt.Println("and allowed once 150 are settled")
	}
	// Output:
	// another 800 are refused while 800 are held
	// and allowed once 150 are settled
}

func ExampleGuard() {
	visitors, err := limit.New(limit.Memory(limit.MemoryOptions{MaxBytes: 64 << 20}), "visitors", "100/1s", "4000/1m")
	if err != nil {
		log.Fatal(err)
	}
	guard := &limit.Guard{Limiter: visitors, FailOpen: true}
	mux := http.NewServeMux()
	server := http.Server{Addr: "127.0.0.1:8000", Handler: guard.Handler(mux)}
	fmt.Println(server.Handler != nil)
	// Output: true
}

// The interceptor of a gRPC server.
func ExampleLimiter_Allow_grpc() {
	callers, err := limit.New(limit.Memory(), "callers", "50/1s")
	if err != nil {
		log.Fatal(err)
	}
	limited := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		address := ""
		if from, known := peer.FromContext(ctx); known {
			address = from.Addr.String()
		}
		result, err := callers.Allow(ctx, client.KeyOfAddress(address))
		if err != nil {
			return nil, status.Error(codes.Unavailable, "the call cannot be counted at the moment")
		}
		if !result.Allowed {
			return nil, status.Errorf(codes.ResourceExhausted, "too many calls for %s", result.Rule)
		}
		return next(ctx, request)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limited))
	defer server.Stop()
	fmt.Println(len(server.GetServiceInfo()))
	// Output: 0
}

// A handler of fiber.
func ExampleLimiter_Allow_fiber() {
	visitors, err := limit.New(limit.Memory(), "fiber", "100/1s")
	if err != nil {
		log.Fatal(err)
	}
	app := fiber.New()
	app.Use(func(c *fiber.Ctx) error {
		result, err := visitors.Allow(c.UserContext(), "ip:"+c.IP())
		if err != nil {
			return fiber.ErrServiceUnavailable
		}
		if !result.Allowed {
			if wait := limit.RetryAfterSeconds(result.RetryAfter); wait != "" {
				c.Set(fiber.HeaderRetryAfter, wait)
			}
			return fiber.ErrTooManyRequests
		}
		return c.Next()
	})
	fmt.Println(app.HandlersCount() > 0)
	// Output: true
}
