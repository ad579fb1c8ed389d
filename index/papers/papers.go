package papers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/schemas"
)

// maxLine bounds a line in bytes. JSON may write a byte of text as six.
const maxLine = 6*index.MaxPaperBytes + 1<<16

// Options are the choices of Load; the zero value is ready for use.
type Options struct {
	// Batch is how many papers a batch has; 0 means 1000. The last may have fewer.
	Batch int
	// Progress, if set, is called after each batch and at the end.
	Progress func(Progress)
	// Skip, if set, is called with each line that is passed over: one that is
	// no paper, or whose id an earlier line has. If nil, the first such line
	// ends Load.
	Skip func(*LineError)
}

// Progress says how far Load has come.
type Progress struct {
	Bytes, Total int64 // read so far, and in all the files; Total is -1 where a file is a pipe or a device
	Papers       int
}

// LineError says what is wrong with a line of a file.
type LineError struct {
	File string
	Line int // 1 is the first
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("papers: %s:%d: %v", e.File, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Load reads files of JSON lines and calls take with the papers in batches,
// which are take's to keep. Each file is SciFact's corpus (doc_id, title,
// abstract) or has a schemas.Paper a line (id, title, abstract, ...), told by its
// first line that isn't blank. Blank lines are passed over, unknown fields too,
// and white space around SciFact's sentences is dropped.
//
// Load ends at the first error: of a file, of take, of the context, or, unless
// Skip is set, a *LineError. Batches taken before that stay taken.
func Load(ctx context.Context, files []string, o Options, take func([]schemas.Paper) error) error {
	if o.Batch <= 0 {
		o.Batch = 1000
	}
	l := &loader{Options: o, ctx: ctx, take: take, seen: make(map[string]place)}
	for _, file := range files {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			return fmt.Errorf("papers: %w", err)
		case info.IsDir():
			return fmt.Errorf("papers: %s is a directory: name the files in it", file)
		case !info.Mode().IsRegular() || l.progress.Total < 0:
			l.progress.Total = -1
		default:
			l.progress.Total += info.Size()
		}
	}
	for _, file := range files {
		if err := l.file(file); err != nil {
			return err
		}
	}
	return l.flush()
}

// place is where an id was seen first.
type place struct {
	file string
	line int
}

type loader struct {
	Options
	ctx      context.Context
	take     func([]schemas.Paper) error
	seen     map[string]place
	batch    []schemas.Paper
	progress Progress
}

func (l *loader) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("papers: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	var parse parser
	for number := 1; ; number++ {
		line, size, err := readLine(r)
		l.progress.Bytes += size
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return fmt.Errorf("papers: %s:%d: %w", name, number, err)
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var paper schemas.Paper
		if err == nil && parse == nil {
			// Whatever the format may be, a first line that has none ends Load.
			if parse, err = detect(line); err != nil {
				return &LineError{name, number, err}
			}
		}
		if err == nil {
			paper, err = parsePaper(parse, line)
		}
		if err == nil {
			err = l.first(paper.ID, place{name, number})
		}
		if err != nil {
			bad := &LineError{name, number, err}
			if l.Skip == nil {
				return bad
			}
			l.Skip(bad)
			continue
		}
		l.batch = append(l.batch, paper)
		if len(l.batch) >= l.Batch {
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
}

func (l *loader) first(id string, at place) error {
	if before, ok := l.seen[id]; ok {
		return fmt.Errorf("id %.80q is in %s:%d already", id, before.file, before.line)
	}
	l.seen[id] = at
	return nil
}

func (l *loader) flush() error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if len(l.batch) > 0 {
		if err := l.take(l.batch); err != nil {
			return err
		}
	}
	l.progress.Papers += len(l.batch)
	l.batch = nil
	if l.Progress != nil {
		l.Progress(l.progress)
	}
	return nil
}

var errLongLine = fmt.Errorf("the line has more than %d bytes", maxLine)

// readLine reads a line and tells its size with the line break. The bytes of a
// line over maxLine are dropped.
func readLine(r *bufio.Reader) (line []byte, size int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		if size <= maxLine {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && size > 0:
			err = nil // the last line has no line break
		}
		if err == nil && size > maxLine {
			err = errLongLine
		}
		return line, size, err
	}
}

type parser func(line []byte) (schemas.Paper, error)

func detect(line []byte) (parser, error) {
	var keys map[string]json.RawMessage
	if err := unmarshal(line, &keys); err != nil {
		return nil, err
	}
	if _, ok := keys["doc_id"]; ok {
		return parseSciFact, nil
	}
	if _, ok := keys["id"]; ok {
		return parsePlain, nil
	}
	return nil, errors.New(`unknown format: a paper has "id", or "doc_id" in SciFact's corpus`)
}

func parsePaper(parse parser, line []byte) (schemas.Paper, error) {
	p, err := parse(line)
	if err != nil {
		return p, err
	}
	if p.Title == "" && len(p.Abstract) == 0 {
		return p, errors.New("neither title nor abstract")
	}
	return p, index.CheckPaper(&p)
}

func parsePlain(line []byte) (schemas.Paper, error) {
	var p schemas.Paper
	err := unmarshal(line, &p)
	return p, err
}

func parseSciFact(line []byte) (schemas.Paper, error) {
	var doc struct {
		ID       json.RawMessage `json:"doc_id"`
		Title    string          `json:"title"`
		Abstract []string        `json:"abstract"`
	}
	if err := unmarshal(line, &doc); err != nil {
		return schemas.Paper{}, err
	}
	// Digits may be more than any integer type holds, and the id is a string anyway.
	id := strings.Trim(string(doc.ID), `"`)
	if id == "" || strings.Trim(id, "0123456789") != "" {
		return schemas.Paper{}, fmt.Errorf("doc_id is %.80s, not a whole number", doc.ID)
	}
	// The title keeps its white space: the reference ranking joins it to the
	// first sentence as it is.
	for i, s := range doc.Abstract {
		doc.Abstract[i] = strings.TrimSpace(s)
	}
	return schemas.Paper{ID: id, Title: doc.Title, Abstract: doc.Abstract}, nil
}

// unmarshal refuses what encoding/json would silently replace.
func unmarshal(line []byte, v any) error {
	if !utf8.Valid(line) {
		return errors.New("not UTF-8: convert the file first")
	}
	return json.Unmarshal(line, v)
}
