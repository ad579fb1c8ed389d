package embedded

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/verisci/verisci/index"
)

// The log is a file of a header and frames:
//
//	header  magic [14]byte, format version uint16
//	frame   payload length uint32, kind byte, CRC uint32, payload
//
// Numbers are little-endian. The CRC is CRC-32C over length, kind and payload.
// Kinds: upsert (a paper as JSON), erase (an id as JSON) and commit (a uint64,
// counting the file's commits from 1), which ends a batch. A batch without its
// commit doesn't exist.
const (
	logName       = "papers.log"
	logMagic      = "VeriSci papers"
	formatVersion = 1
	headerSize    = len(logMagic) + 2
	frameHead     = 9

	// maxPayload is what the largest paper can take: JSON writes some bytes as six.
	maxPayload = 6*index.MaxPaperBytes + 1024
)

type kind byte

const (
	upsert kind = 1
	erase  kind = 2
	commit kind = 3
)

type record struct {
	kind    kind
	payload []byte
}

func (r record) size() int64 { return int64(frameHead + len(r.payload)) }

// ErrDamaged is wrapped in Open's error for a log that is damaged before its last batch.
var ErrDamaged = errors.New("damaged")

// papersLog is an open log. size is where the last good commit ends: what is
// behind it is garbage that a failed write left.
type papersLog struct {
	dir     string
	logger  *slog.Logger
	file    *os.File
	size    int64
	commits uint64
	garbage bool // a failed write may have left bytes behind size
	unnamed bool // the directory isn't synced since the file was renamed into it
}

// openLog opens the log in dir, which is created if there is none, for replay.
func openLog(dir string, logger *slog.Logger) (*papersLog, error) {
	l := &papersLog{dir: dir, logger: logger}
	file, err := os.OpenFile(l.path(), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l, l.rewrite(func(func(record, error) bool) {})
	}
	if err != nil {
		return nil, err
	}
	l.file = file
	if err := checkHeader(file); err != nil {
		return nil, errors.Join(fmt.Errorf("%s %w", l.path(), err), file.Close())
	}
	l.size = int64(headerSize)
	return l, nil
}

func (l *papersLog) path() string { return filepath.Join(l.dir, logName) }

func header() []byte {
	return binary.LittleEndian.AppendUint16([]byte(logMagic), formatVersion)
}

func checkHeader(r io.Reader) error {
	got := make([]byte, headerSize)
	err := readFull(r, got)
	if _, short := errors.AsType[*frameError](err); err != nil && !short {
		return err
	}
	if err != nil || !bytes.HasPrefix(got, []byte(logMagic)) {
		return errors.New("is not a log of papers: name another directory, or remove the file")
	}
	if v := binary.LittleEndian.Uint16(got[len(logMagic):]); v != formatVersion {
		return fmt.Errorf("has format version %d, and this program reads version %d: use the program that wrote it, or index the papers again", v, formatVersion)
	}
	return nil
}

// replay calls batch with the records of each batch in turn, then cuts off a
// torn tail. The records' payloads are the callee's.
func (l *papersLog) replay(batch func([]record) error) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(l.file, l.size, info.Size()-l.size), 1<<20)
	end := l.size
	var pending []record
	for {
		rec, err := readFrame(r)
		if err != nil {
			if _, damaged := errors.AsType[*frameError](err); !damaged {
				return err // the device's, not the content's
			}
			break
		}
		end += rec.size()
		if rec.kind != commit {
			pending = append(pending, rec)
			continue
		}
		if binary.LittleEndian.Uint64(rec.payload) != l.commits+1 {
			break
		}
		if err := batch(pending); err != nil {
			return err
		}
		pending = nil
		l.size, l.commits = end, l.commits+1
	}
	if l.size == info.Size() {
		return nil
	}
	return l.cutTail(info.Size())
}

// cutTail drops what is behind the last good commit, if it can only be a batch
// whose write was cut short. A batch is synced before the next is written, so a
// later commit behind it means that the disk lost what it had promised to keep:
// then nothing is dropped.
func (l *papersLog) cutTail(fileSize int64) error {
	last, err := lastCommit(io.NewSectionReader(l.file, l.size, fileSize-l.size))
	if err != nil {
		return err
	}
	if last > l.commits+1 {
		return fmt.Errorf("%s is %w behind byte %d, with good batches after that: restore the directory from a copy, or remove it and index the papers again", l.path(), ErrDamaged, l.size)
	}
	l.logger.Warn("index: cut off a batch that was not written to its end", "file", l.path(), "kept_bytes", l.size, "cut_bytes", fileSize-l.size)
	l.garbage = true
	return l.dropGarbage()
}

// lastCommit gives the highest number of a commit with a good CRC, at whatever
// byte it begins, or 0.
func lastCommit(r io.Reader) (uint64, error) {
	const size = frameHead + 8
	prefix := []byte{8, 0, 0, 0, byte(commit)} // no payload has it: JSON escapes zero bytes
	var last uint64
	buf := make([]byte, 0, 1<<20)
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return 0, err
		}
		buf = buf[:len(buf)+n]
		for at := 0; ; at++ {
			i := bytes.Index(buf[at:], prefix)
			if i < 0 {
				break
			}
			at += i
			rec, ferr := readFrame(bytes.NewReader(buf[at:]))
			if ferr == nil {
				last = max(last, binary.LittleEndian.Uint64(rec.payload))
			}
		}
		if err != nil {
			return last, nil
		}
		// A commit may straddle the end of the buffer.
		buf = append(buf[:0], buf[len(buf)-(size-1):]...)
	}
}

// frameError says that the bytes are no frame, as opposed to a failed read.
type frameError struct{ reason string }

func (e *frameError) Error() string { return e.reason }

func readFrame(r io.Reader) (record, error) {
	var head [frameHead]byte
	if err := readFull(r, head[:]); err != nil {
		return record{}, err
	}
	n, k := binary.LittleEndian.Uint32(head[:4]), kind(head[4])
	if n > maxPayload || k < upsert || k > commit || k == commit && n != 8 {
		return record{}, &frameError{"bad head"}
	}
	payload := make([]byte, n)
	if err := readFull(r, payload); err != nil {
		return record{}, err
	}
	if binary.LittleEndian.Uint32(head[5:]) != frameCRC(head[:5], payload) {
		return record{}, &frameError{"bad CRC"}
	}
	return record{k, payload}, nil
}

func readFull(r io.Reader, buf []byte) error {
	_, err := io.ReadFull(r, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &frameError{"cut short"}
	}
	return err
}

func appendFrame(buf []byte, rec record) []byte {
	head := len(buf)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(rec.payload)))
	buf = append(buf, byte(rec.kind))
	buf = binary.LittleEndian.AppendUint32(buf, frameCRC(buf[head:], rec.payload))
	return append(buf, rec.payload...)
}

func appendCommit(buf []byte, number uint64) []byte {
	return appendFrame(buf, record{commit, binary.LittleEndian.AppendUint64(nil, number)})
}

func frameCRC(lengthAndKind, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // the same table each time
	return crc32.Update(crc32.Checksum(lengthAndKind, table), table, payload)
}

// append writes a batch and its commit, and syncs them. After an error the log
// is as it was.
func (l *papersLog) append(batch []*change) error {
	if err := l.dropGarbage(); err != nil {
		return err
	}
	var buf []byte
	for _, c := range batch {
		buf = appendFrame(buf, c.record)
	}
	buf = appendCommit(buf, l.commits+1)
	l.garbage = true
	if err := l.write(buf); err != nil {
		// If this fails as well, the next append tries it again.
		return errors.Join(err, l.dropGarbage())
	}
	l.garbage = false
	l.size += int64(len(buf))
	l.commits++
	return nil
}

func (l *papersLog) write(buf []byte) error {
	if l.unnamed {
		if err := syncDir(l.dir); err != nil {
			return err
		}
		l.unnamed = false
	}
	if _, err := l.file.WriteAt(buf, l.size); err != nil {
		return err
	}
	return l.file.Sync()
}

func (l *papersLog) dropGarbage() error {
	if !l.garbage {
		return nil
	}
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.garbage = false
	return nil
}

// rewrite replaces the log with one that holds only records. The old one stays
// in place until the new one is whole, and after an error.
func (l *papersLog) rewrite(records iter.Seq2[record, error]) error {
	temp := l.path() + ".new"
	file, err := os.Create(temp)
	if err != nil {
		return err
	}
	size, commits, err := writeLog(file, records)
	if err == nil {
		err = os.Rename(temp, l.path())
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(temp))
	}
	old := l.file
	l.file, l.size, l.commits, l.garbage, l.unnamed = file, size, commits, false, true
	if err := syncDir(l.dir); err == nil {
		l.unnamed = false // else append tries it again before it promises anything
	}
	if old != nil {
		old.Close() // nothing in it is needed any more
	}
	return nil
}

// writeLog writes and syncs a whole log. Replay holds a batch in memory, so it
// ends one every few records.
func writeLog(file *os.File, records iter.Seq2[record, error]) (size int64, commits uint64, err error) {
	const batch = 1000
	w := bufio.NewWriterSize(file, 1<<20)
	put := func(b []byte) {
		_, _ = w.Write(b) // an error stays in w until Flush
		size += int64(len(b))
	}
	put(header())
	n := 0
	for rec, err := range records {
		if err != nil {
			return 0, 0, err
		}
		put(appendFrame(nil, rec))
		if n++; n%batch == 0 {
			commits++
			put(appendCommit(nil, commits))
		}
	}
	if n%batch != 0 {
		commits++
		put(appendCommit(nil, commits))
	}
	return size, commits, errors.Join(w.Flush(), file.Sync())
}

// close leaves no garbage behind if it can.
func (l *papersLog) close() error {
	return errors.Join(l.dropGarbage(), l.file.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
