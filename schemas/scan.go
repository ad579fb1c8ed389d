package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/hamba/avro/v2"
)

const (
	// maxItems bounds the array items and map entries of one record, all
	// together. It is what bounds items that take no bytes, and the memory that
	// an item of a few bytes turns into.
	maxItems = 1 << 16

	// maxSchemaNodes bounds a writer's schema with its named types written out.
	maxSchemaNodes = 4096
)

var errShort = errors.New("the record ends too early")

// checkSchema refuses writer's schemas that refer to themselves or that grow
// beyond maxSchemaNodes when their named types are written out: the Avro
// library writes them out to skip a field, without end for the first kind.
func checkSchema(schema avro.Schema) error {
	nodes, open := 0, map[string]bool{}
	var walk func(avro.Schema) error
	walk = func(s avro.Schema) error {
		s = deref(s)
		if nodes++; nodes > maxSchemaNodes {
			return fmt.Errorf("the schema has more than %d nodes", maxSchemaNodes)
		}
		switch s := s.(type) {
		case *avro.RecordSchema:
			if open[s.FullName()] {
				return fmt.Errorf("the schema's record %s refers to itself", s.FullName())
			}
			open[s.FullName()] = true
			defer delete(open, s.FullName())
			for _, f := range s.Fields() {
				if err := walk(f.Type()); err != nil {
					return err
				}
			}
		case *avro.ArraySchema:
			return walk(s.Items())
		case *avro.MapSchema:
			return walk(s.Values())
		case *avro.UnionSchema:
			for _, t := range s.Types() {
				if err := walk(t); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk(schema)
}

// checkResolved refuses writer's schemas that have a union where ours has none,
// or none where ours has one: the specification lets some of them be read, the
// Avro library cannot.
func checkResolved(ours, resolved avro.Schema) error {
	ours, resolved = deref(ours), deref(resolved)
	if (ours.Type() == avro.Union) != (resolved.Type() == avro.Union) {
		return fmt.Errorf("the writer has it as %s, this version as %s; make both a union or neither", resolved.Type(), ours.Type())
	}
	switch o := ours.(type) {
	case *avro.ArraySchema:
		return checkResolved(o.Items(), resolved.(*avro.ArraySchema).Items())
	case *avro.RecordSchema:
		fields := map[string]avro.Schema{}
		for _, f := range resolved.(*avro.RecordSchema).Fields() {
			fields[f.Name()] = f.Type()
		}
		for _, f := range o.Fields() {
			if err := checkResolved(f.Type(), fields[f.Name()]); err != nil {
				return fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
	}
	return nil
}

func deref(s avro.Schema) avro.Schema {
	if ref, ok := s.(*avro.RefSchema); ok {
		return ref.Schema()
	}
	return s
}

// scan walks an Avro body along the writer's schema before the Avro library
// sees it. It takes no memory and no more time than the body's length and
// maxItems allow, whatever the bytes announce, and it accepts only bodies on
// which each step of the library is bounded: every length, block count and block size is true, every index is in
// range, every string is UTF-8, and the record ends where the bytes do.
func scan(schema avro.Schema, body []byte) error {
	s := scanner{rest: body}
	if err := s.value(schema); err != nil {
		return err
	}
	if len(s.rest) > 0 {
		return fmt.Errorf("%d bytes follow the record", len(s.rest))
	}
	return nil
}

type scanner struct {
	rest  []byte
	items int
}

// value needs no bound on depth: checkSchema has bounded the schema's.
func (s *scanner) value(schema avro.Schema) error {
	switch t := deref(schema).(type) {
	case *avro.NullSchema:
		return nil
	case *avro.PrimitiveSchema:
		return s.primitive(t.Type())
	case *avro.RecordSchema:
		for _, f := range t.Fields() {
			if err := s.value(f.Type()); err != nil {
				return fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
		return nil
	case *avro.EnumSchema:
		_, err := s.index(len(t.Symbols()))
		return err
	case *avro.FixedSchema:
		return s.skip(int64(t.Size()))
	case *avro.UnionSchema:
		i, err := s.index(len(t.Types()))
		if err != nil {
			return err
		}
		return s.value(t.Types()[i])
	case *avro.ArraySchema:
		return s.blocks(func() error { return s.value(t.Items()) })
	case *avro.MapSchema:
		return s.blocks(func() error {
			if err := s.primitive(avro.String); err != nil {
				return err
			}
			return s.value(t.Values())
		})
	default:
		return fmt.Errorf("the schema has a %s, which is not read", schema.Type())
	}
}

func (s *scanner) primitive(t avro.Type) error {
	switch t {
	case avro.Boolean:
		if len(s.rest) > 0 && s.rest[0] > 1 {
			return errors.New("a boolean is neither 0 nor 1")
		}
		return s.skip(1)
	case avro.Int:
		_, err := s.int()
		return err
	case avro.Long:
		_, err := s.long()
		return err
	case avro.Float:
		return s.skip(4)
	case avro.Double:
		return s.skip(8)
	case avro.Bytes, avro.String:
		n, err := s.long()
		if err != nil {
			return err
		}
		start := s.rest
		if err := s.skip(n); err != nil {
			return err
		}
		if t == avro.String && !utf8.Valid(start[:n]) {
			return ErrNotUTF8
		}
		return nil
	default:
		return fmt.Errorf("the schema has a %s, which is not read", t)
	}
}

// blocks walks the blocks of an array or a map. A negative count is followed by
// the block's size in bytes, which must be true, since readers may skip by it.
func (s *scanner) blocks(item func() error) error {
	for {
		count, err := s.long()
		if err != nil || count == 0 {
			return err
		}
		sized, size := count < 0, int64(0)
		if sized {
			if count == math.MinInt64 {
				return errors.New("a block count is out of range")
			}
			count = -count
			if size, err = s.long(); err != nil {
				return err
			}
		}
		if count > int64(maxItems-s.items) {
			return fmt.Errorf("more than %d items: %w", maxItems, ErrTooLarge)
		}
		s.items += int(count)
		before := len(s.rest)
		for range count {
			if err := item(); err != nil {
				return err
			}
		}
		if used := int64(before - len(s.rest)); sized && used != size {
			return fmt.Errorf("a block says it has %d bytes but has %d", size, used)
		}
	}
}

func (s *scanner) skip(n int64) error {
	if n < 0 {
		return errors.New("a length is negative")
	}
	if n > int64(len(s.rest)) {
		return errShort
	}
	s.rest = s.rest[n:]
	return nil
}

func (s *scanner) index(n int) (int, error) {
	i, err := s.int()
	if err == nil && (i < 0 || i >= int64(n)) {
		err = fmt.Errorf("index %d of an enum or union is out of range", i)
	}
	return int(i), err
}

func (s *scanner) int() (int64, error) {
	before := len(s.rest)
	n, err := s.long()
	if err == nil && (before-len(s.rest) > 5 || n < math.MinInt32 || n > math.MaxInt32) {
		err = errors.New("an int is out of range")
	}
	return n, err
}

func (s *scanner) long() (int64, error) {
	n, used := binary.Varint(s.rest) // zigzag, as Avro's
	switch {
	case used == 0:
		return 0, errShort
	case used < 0:
		return 0, errors.New("a number has too many bytes")
	}
	s.rest = s.rest[used:]
	return n, nil
}
