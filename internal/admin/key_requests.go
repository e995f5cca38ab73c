package admin

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
)

// KeyRequestSource has the last requests of keys in memory. *recorder.Recorder implements it.
type KeyRequestSource interface {
	// KeyRequests returns the requests of a key since a time, the newest first.
	KeyRequests(key string, since time.Time) []offences.KeyRequest
}

// requestMinutes is of how many minutes with refusals the records are read for the requests of a key.
const requestMinutes = 10

// KeyRequests returns the last requests of a key, the newest first: those that this node keeps, and of
// other nodes and times the refusals that are recorded. isIncomplete says that those could not be read.
func (d *Detection) KeyRequests(ctx context.Context, key string) (all []offences.KeyRequest, isIncomplete bool, err error) {
	now := d.now()
	to := now.UTC().Truncate(time.Minute).Add(time.Minute)
	recorded, err := d.RecentRefusals(ctx, key, to.Add(-offences.KeyRequestAge), to, requestMinutes)
	isIncomplete = fault.Is(err, fault.Unavailable)
	if isIncomplete {
		err = nil
	}
	return d.MergeRequests(key, recorded), isIncomplete, err
}

// MergeRequests is KeyRequests for records that were read.
func (d *Detection) MergeRequests(key string, recorded []RecordedRefusal) []offences.KeyRequest {
	since := d.now().Add(-offences.KeyRequestAge)
	var all []offences.KeyRequest
	if d.Requests != nil {
		all = d.Requests.KeyRequests(key, since)
	}
	oldest := since
	if len(all) == offences.MaxKeyRequests { // older ones would not be shown
		oldest = all[len(all)-1].At
	}
	kept := map[int64]bool{}
	for i := range all {
		if q := &all[i]; q.Refusal != "" {
			kept[q.At.UnixMilli()] = true
		}
	}
	for i := range recorded {
		o := &recorded[i]
		for j, r := range []*offences.Refusal{&o.Last, &o.First} {
			at := time.UnixMilli(r.At).UTC()
			if j == 1 && r.At == o.Last.At || kept[r.At] || !at.After(oldest) {
				continue
			}
			all = append(all, d.recordedRequest(o, r, at))
		}
	}
	slices.SortStableFunc(all, func(a, b offences.KeyRequest) int { return b.At.Compare(a.At) })
	return cutRequests(all)
}

// cutRequests leaves at most offences.MaxKeyRequests of the requests of a key, the newest first, and
// among these the last ones before it was blocked.
func cutRequests(all []offences.KeyRequest) []offences.KeyRequest {
	if len(all) <= offences.MaxKeyRequests {
		return all
	}
	isBefore := func(q offences.KeyRequest) bool { return q.Outcome != string(gate.Blocked) }
	if n := slices.IndexFunc(all, isBefore); n >= 0 {
		before := all[n:min(n+offences.KeptBeforeBlock, len(all))]
		if newest := offences.MaxKeyRequests - len(before); n > newest {
			return append(all[:newest:newest], before...)
		}
	}
	return all[:offences.MaxKeyRequests]
}

func (d *Detection) recordedRequest(o *RecordedRefusal, r *offences.Refusal, at time.Time) offences.KeyRequest {
	q := offences.KeyRequest{At: at, Outcome: string(gate.Limited), Refusal: o.ID.String(), Source: r.Source,
		Method: r.Meta[conditions.Method.String()], Path: r.Meta[conditions.Path.String()], Agent: r.Meta[conditions.Agent.String()]}
	switch o.Kind {
	case offences.Blocked:
		q.Outcome, q.Block = string(gate.Blocked), o.RefusedBy
	case offences.Shadow:
		q.Outcome, q.Shadow, q.Rule = string(gate.Allowed), string(gate.Limited), o.RefusedBy
	default:
		q.Rule = o.RefusedBy
	}
	if p, isKnown := d.View.Selector().ByID(o.Policy); isKnown {
		q.Policy = p.Name
	}
	if text := r.Meta[gate.EvidenceMeta]; text != "" {
		q.Evidence = []string{text}
	}
	return q
}
