package offenders

// otherRows collects the `other` rows of all shards. A key falls to one shard,
// so the most that one key may have among them is a maximum over the shards;
// the database adds up what nodes send, so it is sent as a difference.
type otherRows struct {
	rows map[offenceID]*Offence
	sent map[offenceID]int64 // the Over that the database has
}

func newOtherRows() *otherRows {
	return &otherRows{rows: map[offenceID]*Offence{}, sent: map[offenceID]int64{}}
}

func (r *otherRows) add(o Offence) {
	known, found := r.rows[o.id()]
	if !found {
		r.rows[o.id()] = &o
		return
	}
	most := max(known.Over, o.Over)
	known.Merge(&o)
	known.Over = most
}

// drain hands the rows to g and forgets the minutes that began before closed.
func (r *otherRows) drain(g *gathering, closed int64) {
	for id, o := range r.rows {
		most := max(o.Over, r.sent[id])
		o.Over = most - r.sent[id]
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
