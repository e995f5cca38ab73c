package redisconn

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"
)

// LogTo sends the log messages of the Redis client library to logger instead of standard error.
// A failover is logged as info. Failed connections, several a second in an outage, are logged
// for debugging. It applies to the whole process and must be called before the first
// connection.
func LogTo(logger *slog.Logger) { redis.SetLogger(clientLogger{logger}) }

type clientLogger struct{ to *slog.Logger }

// Printf implements the logger interface of go-redis.
func (l clientLogger) Printf(ctx context.Context, format string, args ...any) {
	message, level := fmt.Sprintf(format, args...), slog.LevelDebug
	if strings.Contains(message, "new master") {
		level = slog.LevelInfo
	}
	l.to.Log(ctx, level, "redis client", "message", message)
}
