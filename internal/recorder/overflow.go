package recorder

import "github.com/stint-dev/stint/internal/offences"

// overflow collects the `other` rows of all shards. Each key belongs to one shard, so the largest
// number of offences that one key may have among them is the maximum over the shards. The
// database adds up what nodes send, so drain sends the difference to the last one.
type overflow struct {
	rows map[offenceID]*offences.Offence
	sent map[offenceID]int64 // the Overcount that was sent so far
}

func newOverflow() *overflow {
	return &overflow{rows: map[offenceID]*offences.Offence{}, sent: map[offenceID]int64{}}
}

func (r *overflow) add(o offences.Offence) {
	known, found := r.rows[idOf(&o)]
	if !found {
		r.rows[idOf(&o)] = &o
		return
	}
	most := max(known.Overcount, o.Overcount)
	known.Merge(&o)
	known.Overcount = most
}

// drain adds the rows to g and forgets the minutes that began before closed.
func (r *overflow) drain(g *pendingBatch, closed int64) {
	for id, o := range r.rows {
		most := max(o.Overcount, r.sent[id])
		o.Overcount = most - r.sent[id]
		r.sent[id] = most
		g.addOffence(*o)
	}
	clear(r.rows)
	for id := range r.sent {
		if id.minute < closed {
			delete(r.sent, id)
		}
	}
}
