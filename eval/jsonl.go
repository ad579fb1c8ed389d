package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxLine bounds one line of a claims or predictions file, in bytes. SciFact's
// longest is under 2 KiB.
const maxLine = 1 << 20

// eachLine hands every line of r to parse and prefixes what goes wrong with
// name:line. A file without lines is an error: a score over nothing is no score.
func eachLine(r io.Reader, name string, parse func(line []byte) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	n := 0
	for sc.Scan() {
		n++
		line := sc.Bytes()
		err := parseLine(line, parse)
		if err != nil {
			return fmt.Errorf("eval: %s:%d: %w", name, n, err)
		}
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("eval: %s:%d: line is longer than %d bytes", name, n+1, maxLine)
	} else if err != nil {
		return fmt.Errorf("eval: %s:%d: %w", name, n+1, err)
	}
	if n == 0 {
		return fmt.Errorf("eval: %s is empty", name)
	}
	return nil
}

func parseLine(line []byte, parse func([]byte) error) error {
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return errors.New("empty line")
	case !utf8.Valid(line): // encoding/json would replace the bytes in silence
		return errors.New("not UTF-8")
	}
	return parse(line)
}

// decodeStrict decodes one JSON value and refuses unknown fields and trailing data.
func decodeStrict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("JSON is cut short")
		}
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value on the line")
	}
	return nil
}

// object is a JSON object whose members keep their order. Doubled keys are an
// error, where a map would keep the last in silence.
type object[T any] []member[T]

type member[T any] struct {
	key   string
	value T
}

// UnmarshalJSON is called by encoding/json, which has checked the syntax.
func (o *object[T]) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if start, err := dec.Token(); err != nil {
		return err
	} else if start != json.Delim('{') {
		return fmt.Errorf("want a JSON object, not %v", start)
	}
	*o = object[T]{}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		m := member[T]{key: token.(string)}
		if seen[m.key] {
			return fmt.Errorf("key %q appears twice", m.key)
		}
		seen[m.key] = true
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if err := decodeStrict(raw, &m.value); err != nil {
			return fmt.Errorf("key %q: %w", m.key, err)
		}
		*o = append(*o, m)
	}
	return nil
}
