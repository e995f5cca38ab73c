package redislog

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"
)

// LogTo sends what the Redis client library has to say to logger instead of
// standard error: a failover as news, and connections that fail, of which there
// are several a second in an outage, for debugging. It holds for the whole
// process and is to be called before the first connection.
func LogTo(logger *slog.Logger) { redis.SetLogger(clientLogger{logger}) }

type clientLogger struct{ to *slog.Logger }

// Printf implements the library's logger.
func (l clientLogger) Printf(ctx context.Context, format string, args ...any) {
	message, level := fmt.Sprintf(format, args...), slog.LevelDebug
	if strings.Contains(message, "new master") {
		level = slog.LevelInfo
	}
	l.to.Log(ctx, level, "redis client", "message", message)
}
