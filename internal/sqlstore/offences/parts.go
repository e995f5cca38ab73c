package offences

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// SeenParts implements admin.DetectionStore. The database groups by whole bytes of the
// addresses, which both dialects can cut. The remaining bits are merged here, at most 128 rows
// for each part.
func (s *Store) SeenParts(ctx context.Context, network netip.Prefix, bits int, from, to time.Time) (parts []offences.SeenPart, err error) {
	wide := 128 - network.Addr().BitLen() // number of bits before an IPv4 address
	err = viewSpan(ctx, s.db, from, to, 0, func(t *db.Tx, _ offences.Span, segments []segment) error {
		c := &conditions{}
		c.selects(keys.NetworkPattern(network))
		q := &db.Selection{}
		begin := "substr(place, 1, " + strconv.Itoa((wide+bits+7)/8) + ")"
		text := "SELECT " + begin + ", count(*), CAST(sum(a) AS BIGINT), CAST(sum(r) AS BIGINT) FROM (" +
			"SELECT key, place, sum(allowed) AS a, sum(refused) AS r FROM (" +
			union(q, "key, place, allowed, refused", "key_traffic", segments, c.text, c.args...) +
			") AS counted GROUP BY key, place) AS by_key GROUP BY " + begin + " ORDER BY " + begin
		parts = nil
		return db.Stream(t, func(r db.Row) (p offences.SeenPart, err error) {
			var place []byte
			if err := r.Scan(&place, &p.Keys, &p.Allowed, &p.Refused); err != nil {
				return p, err
			}
			p.Network = partAt(place, network.Addr().Is4(), bits)
			return p, nil
		}, text, q.Args, func(p offences.SeenPart) error {
			if last := len(parts) - 1; last >= 0 && parts[last].Network == p.Network {
				parts[last].Keys += p.Keys
				parts[last].Allowed += p.Allowed
				parts[last].Refused += p.Refused
				return nil
			}
			parts = append(parts, p)
			return nil
		})
	})
	return parts, err
}

// partAt returns the network of the given number of bits that contains the address whose first
// bytes are place.
func partAt(place []byte, is4 bool, bits int) netip.Prefix {
	var whole [16]byte
	copy(whole[:], place)
	addr := netip.AddrFrom16(whole)
	if is4 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, bits).Masked()
}
