package memlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// A snapshot is a header and chunks. The header is the magic text and the
// format's version as 4 bytes. A chunk is the length of its content as 4
// bytes, its content, and the CRC-32C of both as 4 bytes; numbers of fixed
// size are little-endian. Every chunk but the last holds whole logs:
//
//	policy, generation          varints
//	key                         its length as a uvarint, and its bytes
//	newest, window              a varint and a uvarint, in milliseconds
//	number of entries           a uvarint
//	how far each but the newest lies behind the next newer one, in
//	milliseconds, from the second newest to the oldest: uvarints
//
// The last chunk is empty and followed by the number of logs as 8 bytes, so
// that a snapshot cut between chunks is told from a whole one.
const (
	snapshotMagic   = "stint timestamp logs\n"
	snapshotVersion = 1
	// chunkSize is about how long a chunk grows. A log of the largest limit
	// adds half a megabyte to it.
	chunkSize = 64 << 10
	maxChunk  = 16 << 20
	maxKey    = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSnapshot is matched by the error of a snapshot that is cut, damaged, of
// another version or no snapshot at all.
var ErrSnapshot = errors.New("the snapshot of the timestamp logs cannot be used")

func badSnapshot(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
}

// Save writes a snapshot of all logs that have not expired. Checks go on
// meanwhile: a shard is locked for some dozens of kilobytes at a time, and
// each log is written as it is when its turn comes.
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
	}
	if err := writeChunk(out, nil); err != nil {
		return err
	}
	_, err := out.Write(binary.LittleEndian.AppendUint64(nil, v.saved))
	return err
}

// saver collects logs until a chunk is worth writing.
type saver struct {
	out   io.Writer
	chunk []byte
	saved uint64
}

// save writes the logs of s, which is not locked while it writes. The map may
// change meanwhile, as a map may under a range: what is held all along is met
// once, what is added may be met or not.
func (v *saver) save(s *shard, now int64) error {
	s.mu.Lock()
	for _, first := range s.logs {
		for k := first; k != nil; k = k.sameHash {
			if !k.expired(now) {
				v.chunk = k.appendTo(v.chunk)
				v.saved++
			}
		}
		if len(v.chunk) < chunkSize {
			continue
		}
		s.mu.Unlock()
		if err := v.write(); err != nil {
			return err
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
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

func (k *keyLog) appendTo(b []byte) []byte {
	b = binary.AppendVarint(b, k.ref.Policy)
	b = binary.AppendVarint(b, k.ref.Generation)
	b = binary.AppendUvarint(b, uint64(len(k.ref.Key)))
	b = append(b, k.ref.Key...)
	b = binary.AppendVarint(b, k.newest)
	b = binary.AppendUvarint(b, uint64(k.window))
	b = binary.AppendUvarint(b, uint64(k.count))
	for i := 1; i < int(k.count); i++ {
		b = binary.AppendUvarint(b, uint64(k.stamp(i-1)-k.stamp(i)))
	}
	return b
}

// Load adds the logs of a snapshot, except those that have expired since and
// those of which the Log already holds one. A snapshot that is not whole and
// sound loads nothing; the error then matches ErrSnapshot and says what is
// wrong.
func (l *Log) Load(r io.Reader) error {
	loaded, err := readSnapshot(bufio.NewReader(r))
	if err != nil {
		return err
	}
	// A log that was reset and began anew while the snapshot was written may
	// stand in it twice; the later is the one to keep.
	for _, k := range slices.Backward(loaded) {
		hash := hashOf(l.seed, k.ref)
		s := l.shard(hash)
		s.mu.Lock()
		if now := l.now().UnixMilli(); !k.expired(now) && s.find(hash, k.ref) == nil {
			s.add(hash, k, now)
		}
		s.mu.Unlock()
	}
	return nil
}

func readSnapshot(r *bufio.Reader) ([]*keyLog, error) {
	header := make([]byte, len(snapshotMagic)+4)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, cut(err, "in its first line")
	}
	if string(header[:len(snapshotMagic)]) != snapshotMagic {
		return nil, badSnapshot("it does not begin with %q; it is no snapshot", snapshotMagic)
	}
	if v := binary.LittleEndian.Uint32(header[len(snapshotMagic):]); v != snapshotVersion {
		return nil, badSnapshot("it has the format %d; this program reads %d", v, snapshotVersion)
	}
	var loaded []*keyLog
	for chunk := 1; ; chunk++ {
		content, err := readChunk(r, chunk)
		if err != nil {
			return nil, err
		}
		if len(content) == 0 {
			return loaded, checkEnd(r, len(loaded))
		}
		for d := (decoder{rest: content}); len(d.rest) > 0; {
			k := d.keyLog()
			if d.problem != "" {
				return nil, badSnapshot("chunk %d has %s", chunk, d.problem)
			}
			loaded = append(loaded, k)
		}
	}
}

// cut explains a read that ended too early.
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
func checkEnd(r *bufio.Reader, logs int) error {
	number := make([]byte, 8)
	if _, err := io.ReadFull(r, number); err != nil {
		return cut(err, "at its end")
	}
	if n := binary.LittleEndian.Uint64(number); n != uint64(logs) {
		return badSnapshot("it is damaged: it says that it holds %d logs and holds %d", n, logs)
	}
	if _, err := r.ReadByte(); err == nil {
		return badSnapshot("something follows its end")
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	return nil
}

// decoder reads logs from a chunk. The first problem sticks.
type decoder struct {
	rest    []byte
	problem string
}

func (d *decoder) keyLog() *keyLog {
	ref := timestamplog.Ref{Policy: d.varint(), Generation: d.varint(), Key: d.text()}
	k := &keyLog{ref: ref, newest: d.varint(), window: uint32(d.uvarint(maxWindow, "a window"))}
	// Each entry but the newest takes a byte or more, which bounds what a
	// wrong number can make us allocate.
	count := int(d.uvarint(uint64(len(d.rest))+1, "a number of entries"))
	if d.problem == "" && count == 0 {
		d.problem = "a log without entries"
	}
	if d.problem != "" {
		return nil
	}
	k.ring, k.count = make([]uint32, count), uint32(count)
	behind := uint64(0)
	for i := count - 2; i >= 0 && d.problem == ""; i-- {
		behind += d.uvarint(maxWindow, "an entry's age")
		if behind > maxWindow {
			d.problem = "entries further apart than any window"
		}
		k.ring[i] = uint32(-int64(behind))
	}
	return k
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) uvarint(most uint64, what string) uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	if v > most && d.problem == "" {
		d.problem = what + " that is too large"
	}
	return min(v, most)
}

func (d *decoder) text() string {
	n := d.uvarint(maxKey, "a key")
	if n > uint64(len(d.rest)) {
		d.problem = "a log that is cut off"
		return ""
	}
	text := string(d.rest[:n])
	d.rest = d.rest[n:]
	return text
}

// skip moves past a number of n bytes; n of 0 or less means that there is none.
func (d *decoder) skip(n int) {
	if n <= 0 {
		d.rest = nil
		if d.problem == "" {
			d.problem = "a log that is cut off"
		}
		return
	}
	d.rest = d.rest[n:]
}
