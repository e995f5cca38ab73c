package memlog

import (
	"bufio"
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
		v.add(appendCounter(v.chunk, k, s.counters[k]))
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

// Load adds the content of a snapshot, except what has expired since and the logs and counters
// that the Log already has. It may exceed Options.MaxBytes, since Describe does not know yet
// which logs must be kept; checks and Sweep forget and count the excess later. An incomplete or
// damaged snapshot loads nothing; the error then matches ErrSnapshot and says what is wrong.
func (l *Log) Load(r io.Reader) error {
	loaded, err := readSnapshot(bufio.NewReader(r))
	if err != nil {
		return err
	}
	// A log that was reset and written to again during the save may be in the snapshot
	// twice; the later record is valid.
	for _, record := range slices.Backward(loaded) {
		hash := hashOf(l.seed, record.id())
		s := l.shard(hash)
		s.mu.Lock()
		record.addTo(s, hash, l.now().UnixMilli())
		s.publish()
		s.mu.Unlock()
	}
	return nil
}

func readSnapshot(r *bufio.Reader) ([]record, error) {
	header := make([]byte, len(snapshotMagic)+4)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, cut(err, "in its first line")
	}
	if string(header[:len(snapshotMagic)]) != snapshotMagic {
		return nil, badSnapshot("it does not begin with %q; it is not a snapshot", snapshotMagic)
	}
	version := binary.LittleEndian.Uint32(header[len(snapshotMagic):])
	if version < oldestVersion || version > snapshotVersion {
		return nil, badSnapshot("it has the format %d; this program reads %d to %d", version, oldestVersion, snapshotVersion)
	}
	var loaded []record
	for chunk := 1; ; chunk++ {
		content, err := readChunk(r, chunk)
		if err != nil {
			return nil, err
		}
		if len(content) == 0 {
			return loaded, checkEnd(r, len(loaded))
		}
		for d := (decoder{rest: content}); len(d.rest) > 0; {
			record := d.record()
			if d.problem != "" {
				return nil, badSnapshot("chunk %d has %s", chunk, d.problem)
			}
			loaded = append(loaded, record)
		}
	}
}

// cut returns the error for a read that ended too early.
func cut(err error, where string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badSnapshot("it is cut off %s", where)
	}
	return fmt.Errorf("read the snapshot: %w", err)
}

func readChunk(r io.Reader, number int) ([]byte, error) {
	where := fmt.Sprintf("in chunk %d", number)
	length := make([]byte, 4)
	if _, err := io.ReadFull(r, length); err != nil {
		return nil, cut(err, where)
	}
	size := binary.LittleEndian.Uint32(length)
	if size > maxChunk {
		return nil, badSnapshot("it is damaged %s: a length of %d bytes", where, size)
	}
	content := make([]byte, size+4)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, cut(err, where)
	}
	content, sum := content[:size], binary.LittleEndian.Uint32(content[size:])
	if crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, content) != sum {
		return nil, badSnapshot("it is damaged %s: the checksum differs", where)
	}
	return content, nil
}

// checkEnd reads what follows the last chunk.
func checkEnd(r *bufio.Reader, records int) error {
	number := make([]byte, 8)
	if _, err := io.ReadFull(r, number); err != nil {
		return cut(err, "at its end")
	}
	if n := binary.LittleEndian.Uint64(number); n != uint64(records) {
		return badSnapshot("it is damaged: it says that it holds %d records and holds %d", n, records)
	}
	if _, err := r.ReadByte(); err == nil {
		return badSnapshot("something follows its end")
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	return nil
}
