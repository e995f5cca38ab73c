// Command redisrate answers POST /v1/check by redis_rate, as a service would that limits
// its keys with the library: 1,000 requests a minute for each key, by GCRA in Redis.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/go-redis/redis_rate/v10"
	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"
)

func main() {
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: os.Args[2], PoolSize: 64}))
	limit := redis_rate.PerMinute(1000)
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/v1/check", func(c *fiber.Ctx) error {
		var check struct{ Key string }
		if err := json.Unmarshal(c.Body(), &check); err != nil || check.Key == "" {
			return fiber.ErrBadRequest
		}
		result, err := limiter.Allow(c.Context(), check.Key, limit)
		if err != nil {
			return err
		}
		if result.Allowed == 0 {
			c.Status(fiber.StatusTooManyRequests)
		}
		return c.JSON(fiber.Map{"allowed": result.Allowed > 0, "remaining": result.Remaining, "retry_after_ms": result.RetryAfter.Milliseconds()})
	})
	log.Fatal(app.Listen(os.Args[1]))
}
