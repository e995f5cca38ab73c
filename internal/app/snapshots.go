package app

import (
	"context"
	"log/slog"
	"sync"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// snapshots saves the logs of an embedded node to its data directory.
type snapshots struct {
	memory *memlog.Log
	path   string
	log    *slog.Logger
	mu     sync.Mutex // held while a snapshot is written
}

func (s *snapshots) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.memory.SaveFile(s.path); err != nil {
		s.log.Error("the logs could not be saved; a restart now would forget them", "error", err)
	}
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
