package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// snapshots saves the logs of an embedded node to its data directory.
type snapshots struct {
	memory *memlog.Log
	path   string
	log    *slog.Logger
	mu     sync.Mutex // held while a snapshot is written
	result save
	// failing reports whether the last snapshot could not be written.
	failing bool
}

// save writes a snapshot. It logs only the first failure and the first success after it: a full
// disk may stay full for days.
func (s *snapshots) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.failing
	if err := s.write(); failed && err == nil {
		s.log.Info("the logs are saved again")
	}
}

// saveLast writes the snapshot that the next start loads. It logs every failure.
func (s *snapshots) saveLast() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = false
	return s.write()
}

func (s *snapshots) write() error {
	err := s.memory.SaveFile(s.path)
	if err != nil && !s.failing {
		s.log.Error("the logs could not be saved; a restart now would forget them", "error", err)
	}
	s.failing = err != nil
	s.result.done(time.Now(), err)
	return err
}

// savedLog saves a snapshot after every reset, so that a crash does not undo a
// reset that an operator saw succeed.
type savedLog struct {
	timestamplog.Log
	snapshots *snapshots
}

// Reset deletes a log, on disk too.
func (l savedLog) Reset(ctx context.Context, id timestamplog.LogID) (bool, error) {
	existed, err := l.Log.Reset(ctx, id)
	if err == nil && existed {
		l.snapshots.save()
	}
	return existed, err
}
