package app

import (
	"io"
	"log/slog"
)

// newLogger returns the logger of the settings. Both formats escape control
// characters, which an attacker may put into a key.
func newLogger(s Settings, out io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}
