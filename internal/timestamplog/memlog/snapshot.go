package memlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"
)

// A snapshot is a header and chunks. The header is the magic text and the
// format's version as 4 bytes. A chunk is the length of its content as 4
// bytes, its content, and the CRC-32C of both as 4 bytes; numbers of fixed
// size are little-endian. Every chunk but the last holds whole records. A record is
// a log, a counter, a distinct log or the known IDs of one log:
//
//	kind                        a uvarint: 0 to 3
//	policy, generation          varints
//	key                         its length as a uvarint, and its bytes
//
// and then, for a log,
//
//	newest, window              a varint and a uvarint, in milliseconds
//	number of entries           a uvarint
//	the distance of each entry to the next newer one, in milliseconds, from the
//	second newest to the oldest: uvarints
//	how many of the newest were made for reservations: a uvarint
//
// or for a counter,
//
//	when it expires             a varint
//	its numbers                 how many as a uvarint, and varints
//	whether reservations lie ahead     a uvarint, 0 or 1, and then
//	the newest reservation             a varint
//	its ID                      as a key
//	the numbers before it       as its numbers
//	the newest reservation before it   a varint
//
// or for IDs,
//
//	how many                    a uvarint, and for each, in the order of their
//	arrival, the ID as a key, its reservation as a varint and its cost as a
//	uvarint; only the newest maxSavedIDs are saved
//
// or for a distinct log, which is kind 3,
//
//	window                      a uvarint, in milliseconds
//	number of values            a uvarint, and for each, the oldest first, its hash
//	as 8 bytes and its time as a varint
//
// The last chunk is empty and followed by the number of records as 8 bytes, so
// that a snapshot cut off between chunks is detected.
//
// Version 1 had only logs, without their kind and without reservations. Version 2 had no
// distinct logs; it can still be read.
const (
	snapshotMagic   = "stint timestamp logs\n"
	snapshotVersion = 3
	oldestVersion   = 2 // the oldest version that can be read
	// chunkSize is about how long a chunk gets. The last record may exceed it: a log of the
	// largest limit takes half a megabyte.
	chunkSize = 64 << 10
	maxChunk  = 16 << 20
	maxKey    = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSnapshot is matched by the error of a snapshot that is truncated, damaged, of another
// version or not a snapshot at all.
var ErrSnapshot = errors.New("the snapshot of the timestamp logs cannot be used")

func badSnapshot(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
}

// Save writes a snapshot of all logs that have not expired. Checks continue during it: a shard
// is locked only while some dozens of kilobytes are collected, and each log is saved as it is
// at that moment.
func (l *Log) Save(w io.Writer) error {
	out := bufio.NewWriter(w)
	if err := l.save(out); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

func (l *Log) save(out io.Writer) error {
	header := binary.LittleEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion)
	if _, err := out.Write(header); err != nil {
		return err
	}
	v := saver{out: out, chunk: make([]byte, 0, 2*chunkSize)}
	for i := range l.shards {
		if err := v.save(&l.shards[i], l.now().UnixMilli()); err != nil {
			return err
		}
		if err := v.write(); err != nil {
			return err
		}
	}
	if err := writeChunk(out, nil); err != nil {
		return err
	}
	_, err := out.Write(binary.LittleEndian.AppendUint64(nil, v.saved))
	return err
}

// saver collects records until a chunk is large enough to be written.
type saver struct {
	out   io.Writer
	chunk []byte
	saved uint64
}

// save writes the records of s, and unlocks s during each write. The IDs and the index may
// change then: what is there throughout is saved once, what is added may be saved or not.
func (v *saver) save(s *shard, now int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.ids.logs {
		if s.ids.bytes -= l.dropOld(now); len(l.reservations) > 0 {
			v.add(appendIDs(v.chunk, l))
		}
		if err := v.writeIfLong(&s.mu); err != nil {
			return err
		}
	}
	for _, k := range s.logs.all() {
		if err := v.saveLog(s, k, now); err != nil {
			return err
		}
	}
	return nil
}

// saveLog saves k unless it is gone or has expired.
func (v *saver) saveLog(s *shard, k *keyLog, now int64) error {
	switch {
	case k.count == 0 || k.expired(now):
		return nil
	case k.isCounter():
		v.add(appendCounter(v.chunk, k, stateOf(k)))
	case k.isDistinct():
		v.add(appendDistinct(v.chunk, k, s.values[k]))
	default:
		v.add(appendLog(v.chunk, k))
	}
	return v.writeIfLong(&s.mu)
}

// add replaces the chunk by one to which a record was appended.
func (v *saver) add(chunk []byte) {
	v.chunk = chunk
	v.saved++
}

// writeIfLong writes the chunk if it is long enough, and unlocks mu during the write.
func (v *saver) writeIfLong(mu *sync.Mutex) error {
	if len(v.chunk) < chunkSize {
		return nil
	}
	mu.Unlock()
	defer mu.Lock()
	return v.write()
}

func (v *saver) write() error {
	if len(v.chunk) == 0 {
		return nil // an empty chunk would end the snapshot
	}
	err := writeChunk(v.out, v.chunk)
	v.chunk = v.chunk[:0]
	return err
}

func writeChunk(w io.Writer, content []byte) error {
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(content)))
	sum := crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, content)
	for _, part := range [][]byte{length, content, binary.LittleEndian.AppendUint32(nil, sum)} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// DamagedSnapshot is the error of a snapshot of which only a part could be loaded.
type DamagedSnapshot struct {
	Loaded int   // records
	Lost   int   // records, -1 if it is not known
	Err    error // the first damage; it matches ErrSnapshot
}

// Error implements error.
func (d *DamagedSnapshot) Error() string {
	lost := fmt.Sprint(d.Lost)
	if d.Lost < 0 {
		lost = "an unknown number"
	}
	return fmt.Sprintf("%v; %d logs, counters and IDs were loaded, %s are lost", d.Err, d.Loaded, lost)
}

// Unwrap returns Err.
func (d *DamagedSnapshot) Unwrap() error { return d.Err }

// Load adds the content of a snapshot, except what has expired since and the logs and counters
// that the Log already has. It may exceed Options.MaxBytes, since Describe does not know yet
// which logs must be kept; checks and Sweep forget and count the excess later. Of a damaged or
// incomplete snapshot it loads every chunk whose checksum is right; the error is then a
// *DamagedSnapshot. Any other error means that nothing was loaded; it matches ErrSnapshot if r
// is no snapshot that this program reads.
func (l *Log) Load(r io.Reader) error {
	s := snapshotReader{r: bufio.NewReader(r)}
	if err := s.read(); err != nil {
		return err
	}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.cancelled.since = l.now().UnixMilli()
		s.mu.Unlock()
	}
	// A log that was reset and written to again during the save may be in the snapshot
	// twice; the later record is valid.
	for _, record := range slices.Backward(s.loaded) {
		hash := hashOf(l.seed, record.id())
		s := l.shard(hash)
		s.mu.Lock()
		record.addTo(s, hash, l.now().UnixMilli())
		s.publish()
		s.mu.Unlock()
	}
	if s.damage == nil {
		return nil
	}
	return &DamagedSnapshot{Loaded: len(s.loaded), Lost: s.lost, Err: s.damage}
}

// snapshotReader reads the records of a snapshot, and goes on after damage.
type snapshotReader struct {
	r      *bufio.Reader
	loaded []record
	damage error // the first
	lost   int   // records, -1 if it is not known
}

// read returns an error only if nothing can be read.
func (s *snapshotReader) read() error {
	header := make([]byte, len(snapshotMagic)+4)
	if _, err := io.ReadFull(s.r, header); err != nil {
		return cut(err, "in its first line")
	}
	if string(header[:len(snapshotMagic)]) != snapshotMagic {
		return badSnapshot("it does not begin with %q; it is not a snapshot", snapshotMagic)
	}
	version := binary.LittleEndian.Uint32(header[len(snapshotMagic):])
	if version < oldestVersion || version > snapshotVersion {
		return badSnapshot("it has the format %d; this program reads %d to %d", version, oldestVersion, snapshotVersion)
	}
	for chunk := 1; ; chunk++ {
		content, taken, err := readChunk(s.r, chunk)
		if err != nil && !errors.Is(err, ErrSnapshot) {
			return err
		}
		if err != nil {
			s.note(err)
			isFound, err := s.resync(taken)
			if err != nil {
				return err
			}
			if !isFound {
				s.lost = -1
				return nil
			}
			continue
		}
		if len(content) == 0 {
			return s.readEnd()
		}
		s.decode(content, chunk)
	}
}

// note keeps the first damage.
func (s *snapshotReader) note(damage error) {
	if s.damage == nil {
		s.damage = damage
	}
}

// decode adds the records of a chunk, all or none.
func (s *snapshotReader) decode(content []byte, chunk int) {
	before := len(s.loaded)
	for d := (decoder{rest: content}); len(d.rest) > 0; {
		record := d.record()
		if d.problem != "" {
			s.note(badSnapshot("chunk %d has %s", chunk, d.problem))
			s.loaded = s.loaded[:before]
			return
		}
		s.loaded = append(s.loaded, record)
	}
}

// resync looks for the next whole chunk, which may begin anywhere after the damaged one before
// it. taken are the bytes of that one. It reports whether there is a whole chunk, with which s
// goes on. Damage is rare, so that what follows may be in memory as a whole.
func (s *snapshotReader) resync(taken []byte) (bool, error) {
	after, err := io.ReadAll(s.r)
	if err != nil {
		return false, fmt.Errorf("read the snapshot: %w", err)
	}
	all := slices.Concat(taken, after)
	for at := 1; at+8 <= len(all); at++ {
		if size := binary.LittleEndian.Uint32(all[at:]); size <= maxChunk && at+8+int(size) <= len(all) && chunkIsWhole(all[at:at+8+int(size)]) {
			s.r = bufio.NewReader(bytes.NewReader(all[at:]))
			return true, nil
		}
	}
	return false, nil
}

// chunkIsWhole reports whether a chunk, with its length and its checksum, has the right checksum.
func chunkIsWhole(chunk []byte) bool {
	content := len(chunk) - 4
	return crc32.Checksum(chunk[:content], castagnoli) == binary.LittleEndian.Uint32(chunk[content:])
}

// cut returns the error for a read that ended too early.
func cut(err error, where string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badSnapshot("it is cut off %s", where)
	}
	return fmt.Errorf("read the snapshot: %w", err)
}

// readChunk returns the content of the next chunk. taken are all bytes that it read.
func readChunk(r io.Reader, number int) (content, taken []byte, err error) {
	where := fmt.Sprintf("in chunk %d", number)
	length := make([]byte, 4)
	if n, err := io.ReadFull(r, length); err != nil {
		return nil, length[:n], cut(err, where)
	}
	size := binary.LittleEndian.Uint32(length)
	if size > maxChunk {
		return nil, length, badSnapshot("it is damaged %s: a length of %d bytes", where, size)
	}
	taken = make([]byte, 4+size+4)
	copy(taken, length)
	if n, err := io.ReadFull(r, taken[4:]); err != nil {
		return nil, taken[:4+n], cut(err, where)
	}
	if !chunkIsWhole(taken) {
		return nil, taken, badSnapshot("it is damaged %s: the checksum differs", where)
	}
	return taken[4 : 4+size], taken, nil
}

// readEnd reads what follows the last chunk, and finds out how many records are lost.
func (s *snapshotReader) readEnd() error {
	number := make([]byte, 8)
	if _, err := io.ReadFull(s.r, number); err != nil {
		err = cut(err, "at its end")
		if errors.Is(err, ErrSnapshot) {
			s.note(err)
			s.lost = -1
			return nil
		}
		return err
	}
	n := binary.LittleEndian.Uint64(number)
	switch loaded := uint64(len(s.loaded)); {
	case n == loaded:
	case s.damage != nil && n > loaded && n-loaded < 1<<40:
		s.lost = int(n - loaded)
	default:
		s.note(badSnapshot("it is damaged: it says that it holds %d records and holds %d", n, loaded))
		s.lost = -1
	}
	if _, err := s.r.ReadByte(); err == nil {
		s.note(badSnapshot("something follows its end"))
		s.lost = -1
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	return nil
}
