package redislog

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sends what the Redis client library has to say, mostly on connections
// that fail, to logger instead of standard error. It holds for the whole
// process and is to be called before the first connection.
func LogTo(logger *slog.Logger) { redis.SetLogger(clientLogger{logger}) }

type clientLogger struct{ to *slog.Logger }

// Printf implements the library's logger.
func (l clientLogger) Printf(ctx context.Context, format string, args ...any) {
	l.to.WarnContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}
