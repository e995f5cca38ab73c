package gate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"slices"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// A handle cancels a reservation. It contains all that Log.Cancel needs, so that nothing is stored for
// it. It is these bytes in base64url without padding:
//
//   - a version,
//   - the request's ID,
//   - one entry for each log with a reservation: the policy's id, its generation, the time in Unix
//     milliseconds and the cost as uvarints, then the length of the key and the key,
//   - the HMAC-SHA256 of all these.
//
// Several policies may have a reservation of the same key, for example a shadow policy or one with
// conditions. Their entries follow the entry with the key, and have an empty key themselves.
//
// If a reservation may be cancelled after its time, the version is that of charges, and each cost is
// followed by another uvarint: for how many milliseconds it may be cancelled.
const (
	handleVersion = 1
	chargeVersion = 3 // 2 is that of holds
	maxEntry      = 3*binary.MaxVarintLen64 + maxCharge + 2 + keys.MaxLength
	maxShadow     = 3*binary.MaxVarintLen64 + maxCharge + 1
	// maxCharge is the length of a cost of up to algorithms.MaxAmount and of Reservation.Counts.
	maxCharge     = 8 + 4
	maxHandleKeys = 16
	// maxDerivedBytes is the maximum total length of the further keys of a check with a MaxWait,
	// so that a handle fits into a request line.
	maxDerivedBytes = 800
	maxRawHandle    = 1 + 1 + timestamplog.MaxID + maxHandleKeys*maxEntry + maxDerivedBytes +
		(2*timestamplog.MaxCombined-maxHandleKeys)*maxShadow + sha256.Size

	// MaxHandle is the length of the longest handle in bytes: one about 16 keys of 512 bytes, each also
	// under shadow policies or policies with conditions, and their further keys.
	MaxHandle = (maxRawHandle*8 + 5) / 6
)

// handleText is strict, so that each handle has only one spelling.
var handleText = base64.RawURLEncoding.Strict()

// reserved is one reservation of a handle.
type reserved struct {
	timestamplog.Reservation
	sharesKey bool // the key is that of the entry before it
}

// reservationsOf returns the reservations of d and its additional decisions: first those of the
// check's key, then those of further keys.
func reservationsOf(d *Decision) []reserved {
	var all, derived []reserved
	add := func(p *rules.Policy, a *Answer) {
		if a.ReservedAt.IsZero() {
			return
		}
		r := reserved{Reservation: timestamplog.Reservation{
			LogID: timestamplog.LogIDOf(p, a.countedKey(&d.Check).String()), At: a.ReservedAt.UnixMilli(), Cost: a.reservedCost, ID: d.Check.ID,
			Counts: a.counts.Milliseconds(),
		}}
		if a.Derived != nil {
			derived = append(derived, r)
			return
		}
		r.sharesKey = len(all) > 0
		all = append(all, r)
	}
	addBoth := func(d *Decision) {
		add(d.Policy, &d.Answer)
		if d.Shadow != nil && len(all) > 0 {
			add(d.Shadow.Policy, &d.Shadow.Answer)
		}
	}
	addBoth(d)
	for i := range d.Additional {
		addBoth(&d.Additional[i])
	}
	return append(all, derived...)
}

// handle returns the handle of the reservations of one request.
func (s *signer) handle(id string, reservations []reserved) string {
	version := byte(handleVersion)
	if slices.ContainsFunc(reservations, func(r reserved) bool { return r.Counts > 0 }) {
		version = chargeVersion
	}
	raw := append([]byte{version, byte(len(id))}, id...)
	for _, r := range reservations {
		raw = binary.AppendUvarint(raw, uint64(r.Policy))
		raw = binary.AppendUvarint(raw, uint64(r.Generation))
		raw = binary.AppendUvarint(raw, uint64(r.At))
		raw = binary.AppendUvarint(raw, uint64(r.Cost))
		if version == chargeVersion {
			raw = binary.AppendUvarint(raw, uint64(r.Counts))
		}
		key := r.Key
		if r.sharesKey {
			key = ""
		}
		raw = binary.AppendUvarint(raw, uint64(len(key)))
		raw = append(raw, key...)
	}
	return handleText.EncodeToString(s.sealed(raw))
}

// sealed returns raw followed by its MAC.
func (s *signer) sealed(raw []byte) []byte { return s.appendMAC(raw, raw) }

// appendMAC appends the MAC of raw to b.
func (s *signer) appendMAC(b, raw []byte) []byte {
	mac, _ := s.macs.Get().(hash.Hash)
	if mac == nil {
		mac = hmac.New(sha256.New, s.handleKey)
	}
	mac.Write(raw)
	b = mac.Sum(b)
	mac.Reset()
	s.macs.Put(mac)
	return b
}

// read returns the reservations of a handle, false if it was not made under this secret.
func (s *signer) read(handle string) ([]reserved, bool) {
	version := byte(handleVersion)
	body, known := s.unsealed(handle, version)
	if !known {
		version = chargeVersion
		body, known = s.unsealed(handle, version)
	}
	if !known {
		return nil, false
	}
	from := handleReader{rest: body, sound: true}
	id := string(from.bytes(uint64(from.byte())))
	var reservations []reserved
	for key := ""; from.sound && len(from.rest) > 0; {
		r := reserved{Reservation: timestamplog.Reservation{ID: id}}
		r.Policy, r.Generation, r.At, r.Cost = int64(from.number()), int64(from.number()), int64(from.number()), int(from.number())
		if version == chargeVersion {
			r.Counts = int64(from.number())
		}
		given := string(from.bytes(from.number()))
		if r.sharesKey = given == ""; !r.sharesKey {
			key = given
		}
		r.Key = key
		reservations = append(reservations, r)
	}
	return reservations, from.sound && len(reservations) > 0
}

// unsealed returns the content of a handle of a version, without the version.
func (s *signer) unsealed(handle string, version byte) ([]byte, bool) {
	if len(handle) > MaxHandle {
		return nil, false
	}
	raw, err := handleText.DecodeString(handle)
	if err != nil || len(raw) < 2+sha256.Size {
		return nil, false
	}
	body, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(s.appendMAC(nil, body), mac) || body[0] != version {
		return nil, false
	}
	return body[1:], true
}

// handleReader decodes a handle. sound becomes false if the handle is too short.
type handleReader struct {
	rest  []byte
	sound bool
}

func (r *handleReader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.sound, r.rest = false, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *handleReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *handleReader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.sound, r.rest = false, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}
