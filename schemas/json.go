package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/hamba/avro/v2"
)

// maxDepth bounds nesting in JSON. Our deepest record has 5 levels; the rest is
// room for fields that are not ours.
const maxDepth = 16

// decodeJSON is strict where encoding/json is not: the text is UTF-8, no object
// names a field twice, our fields are spelled exactly, and one object is all
// there is. Fields that the schema lacks are passed by, as a reader of Avro
// passes by what only the writer knows; a null is the same as no field.
func (r *record) decodeJSON(text []byte, v any) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("schemas: %s: %w", r.name, ErrNotUTF8)
	}
	walk := jsonWalk{decoder: json.NewDecoder(bytes.NewReader(text))}
	walk.decoder.UseNumber()
	err := walk.value(r.schema, 0)
	if err == nil {
		if _, err = walk.decoder.Token(); errors.Is(err, io.EOF) {
			err = json.Unmarshal(text, v)
		} else if err == nil {
			err = errors.New("more follows the object")
		}
	}
	if err != nil {
		return fmt.Errorf("schemas: %s: %w: %w", r.name, err, ErrMalformed)
	}
	return nil
}

type jsonWalk struct {
	decoder *json.Decoder
	items   int
}

// value walks the next JSON value. schema is nil where the value is not ours.
func (w *jsonWalk) value(schema avro.Schema, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	if w.items++; w.items > maxItems {
		return fmt.Errorf("more than %d values", maxItems)
	}
	token, err := w.decoder.Token()
	if err != nil {
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	switch token {
	case json.Delim('{'):
		return w.object(schema, depth)
	case json.Delim('['):
		var items avro.Schema
		if array, ok := deref(schema).(*avro.ArraySchema); ok {
			items = array.Items()
		}
		for w.decoder.More() {
			if err := w.value(items, depth+1); err != nil {
				return err
			}
		}
		_, err = w.decoder.Token()
		return err
	}
	return nil
}

func (w *jsonWalk) object(schema avro.Schema, depth int) error {
	seen := map[string]bool{}
	for w.decoder.More() {
		token, err := w.decoder.Token()
		if err != nil {
			return err
		}
		name := token.(string) // the decoder lets nothing else be a name
		if seen[name] {
			return fmt.Errorf("field %q is there twice", name)
		}
		seen[name] = true
		var value avro.Schema
		if rec, ok := deref(schema).(*avro.RecordSchema); ok {
			for _, f := range rec.Fields() {
				if f.Name() == name {
					value = f.Type()
				} else if strings.EqualFold(f.Name(), name) {
					return fmt.Errorf("field %q is spelled %q", name, f.Name())
				}
			}
		}
		if err := w.value(value, depth+1); err != nil {
			return err
		}
	}
	_, err := w.decoder.Token()
	return err
}

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
