package memlog

import (
	"context"
	"slices"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// DecideAll answers requests about different logs as one. It cannot fail but
// for a context that has ended, which charges nothing.
func (l *Log) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	asked := make([]together, len(requests))
	shards := make([]int, 0, len(requests))
	peek, maxWait := false, timestamplog.MaxWait
	for i := range requests {
		hash := hashOf(l.seed, requests[i].Ref)
		asked[i] = together{q: requests[i], r: &results[i], shard: l.shard(hash), hash: hash}
		shards = append(shards, int(hash&(shardCount-1)))
		peek, maxWait = peek || requests[i].Peek, min(maxWait, requests[i].MaxWait)
	}
	// In the order of their index, so that no two calls wait for each other.
	slices.Sort(shards)
	shards = slices.Compact(shards)
	for _, i := range shards {
		l.shards[i].mu.Lock()
		defer l.shards[i].mu.Unlock()
	}
	now := l.now().UnixMilli() // under all locks, as decide reads it
	for _, i := range shards {
		l.shards[i].sweep(now, sweepPerCheck*len(requests))
	}
	decideTogether(asked, now, peek, maxWait)
	return nil
}

// together is one of several requests that are decided as one.
type together struct {
	q     timestamplog.Request
	r     *timestamplog.Result
	shard *shard
	hash  uint64
	log   *keyLog
	view  view
}

// decideTogether decides requests whose shards are locked.
func decideTogether(asked []together, now int64, peek bool, maxWait int64) {
	allowed, turn := true, now
	for i := range asked {
		a := &asked[i]
		a.q.Peek, a.q.MaxWait = peek, maxWait
		a.log, a.view = a.shard.judge(a.hash, now, &a.q, a.r)
		allowed = allowed && a.r.Allowed
		if !a.r.Repeated {
			turn = max(turn, a.r.Turn)
		}
	}
	for i := range asked {
		a := &asked[i]
		if allowed && !a.r.Repeated {
			a.r.Turn = turn
			if !peek && len(a.q.Rules) > 0 {
				a.view = a.shard.log(a.hash, a.log, now, turn, &a.q).viewAt(now)
			}
		}
		if a.q.Detail {
			a.view.describe(&a.q, a.r)
		}
	}
}

// GiveBack gives a turn back. It never fails.
func (l *Log) GiveBack(_ context.Context, turn timestamplog.Turn) (bool, error) {
	hash := hashOf(l.seed, turn.Ref)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.giveBack(hash, l.now().UnixMilli(), turn), nil
}

func (s *shard) giveBack(hash uint64, now int64, turn timestamplog.Turn) bool {
	k := s.find(hash, turn.Ref)
	if k == nil || turn.At <= now || k.tooFarAhead(now) > 0 || !s.ids.take(turn) {
		return false
	}
	if !k.giveBack(turn.At, turn.Cost) {
		return false
	}
	if k.count == 0 {
		s.remove(hash, k)
		k.forget()
	}
	return true
}
