package schemas

import (
	"bytes"
	"context"
	"embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/hamba/avro/v2"
)

//go:embed avsc/*.avsc
var avsc embed.FS

// Names of the records, for Schema.
const (
	ClaimName   = "claim"
	PaperName   = "paper"
	VerdictName = "verdict"
)

// Schema returns the Avro schema of a record as the JSON text to register or to
// give to other clients. The error names the records there are.
func Schema(name string) (string, error) {
	text, err := avsc.ReadFile("avsc/" + name + ".avsc")
	if err != nil {
		return "", fmt.Errorf("schemas: no record %q: ask for %s, %s or %s", name, ClaimName, PaperName, VerdictName)
	}
	return string(text), nil
}

// Fingerprint returns the CRC-64-AVRO fingerprint of the schema's Parsing
// Canonical Form (Avro 1.12 specification, "Schema Fingerprints").
func Fingerprint(schema string) (uint64, error) {
	// The canonical form has no logical types, but the Avro library leaves them
	// in: take them out first.
	var tree any
	if err := json.Unmarshal([]byte(schema), &tree); err != nil {
		return 0, fmt.Errorf("schemas: fingerprint: the schema is not JSON: %w", err)
	}
	dropLogicalTypes(tree)
	plain, err := json.Marshal(tree)
	if err != nil {
		return 0, fmt.Errorf("schemas: fingerprint: %w", err)
	}
	parsed, err := parse(string(plain))
	if err != nil {
		return 0, err
	}
	sum, err := parsed.FingerprintUsing(avro.CRC64Avro) // big-endian
	if err != nil {
		return 0, fmt.Errorf("schemas: fingerprint: %w", err)
	}
	return binary.BigEndian.Uint64(sum), nil
}

func dropLogicalTypes(tree any) {
	switch v := tree.(type) {
	case []any:
		for _, item := range v {
			dropLogicalTypes(item)
		}
	case map[string]any:
		delete(v, "logicalType")
		for _, item := range v {
			dropLogicalTypes(item)
		}
	}
}

// Format is the framing of a record on the wire.
type Format int

// The formats, told apart by the first bytes.
const (
	// SingleObject is C3 01, the little-endian CRC-64-AVRO fingerprint of the
	// writer's schema in 8 bytes, and the Avro body (Avro specification,
	// "Single-object encoding").
	SingleObject Format = iota + 1

	// Confluent is 00, the writer's schema id as a big-endian uint32, and the
	// Avro body.
	Confluent

	// JSON is one plain JSON object with the schema's field names, enums as
	// strings and times as RFC 3339. It is not Avro's JSON encoding: unions are
	// not tagged. It may start with white space and a byte order mark.
	JSON
)

func (f Format) String() string {
	switch f {
	case SingleObject:
		return "single-object"
	case Confluent:
		return "confluent"
	case JSON:
		return "json"
	default:
		return fmt.Sprintf("Format(%d)", int(f))
	}
}

const (
	singleObjectHeader = 10
	confluentHeader    = 5
	byteOrderMark      = "\ufeff"
)

// Resolver finds the writer's schema behind a Confluent schema id. An id that
// does not exist is an error that wraps ErrUnknownSchema; any other error is
// taken to pass with time.
type Resolver interface {
	SchemaByID(ctx context.Context, id int) (schema string, err error)
}

// Options of a Codec. The zero value is usable.
type Options struct {
	MaxBytes int      // of a record with its header; 0 stands for 1 MiB
	MaxText  int      // of a claim's text in bytes; 0 stands for DefaultMaxText
	Resolver Resolver // nil: records in Confluent framing are refused
}

const defaultMaxBytes = 1 << 20

// Codec turns records into bytes and back. It is safe for concurrent use.
//
// Decoding returns one of the package's permanent errors, or what the Resolver
// returned. A record that was read but did not validate comes back beside the
// error, so that its id can be reported.
type Codec struct {
	opts    Options
	claim   *record
	paper   *record
	verdict *record
}

// NewCodec compiles the schemas.
func NewCodec(opts Options) (*Codec, error) {
	if opts.MaxBytes < 0 || opts.MaxText < 0 {
		return nil, errors.New("schemas: Options: MaxBytes and MaxText must not be negative")
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	c := &Codec{opts: opts}
	for name, rec := range map[string]**record{ClaimName: &c.claim, PaperName: &c.paper, VerdictName: &c.verdict} {
		r, err := newRecord(name, opts)
		if err != nil {
			return nil, err
		}
		*rec = r
	}
	return c, nil
}

// DecodeClaim reads a claim in any of the formats and validates it.
func (c *Codec) DecodeClaim(ctx context.Context, data []byte) (Claim, Format, error) {
	var v Claim
	format, err := c.claim.decode(ctx, data, &v)
	if err != nil {
		return Claim{}, format, err
	}
	v = v.normal()
	return v, format, v.Validate(c.opts.MaxText)
}

// DecodePaper reads a paper in any of the formats and validates it.
func (c *Codec) DecodePaper(ctx context.Context, data []byte) (Paper, Format, error) {
	var v Paper
	format, err := c.paper.decode(ctx, data, &v)
	if err != nil {
		return Paper{}, format, err
	}
	v = v.normal()
	return v, format, v.Validate()
}

// DecodeVerdict reads a verdict in any of the formats and validates it.
func (c *Codec) DecodeVerdict(ctx context.Context, data []byte) (Verdict, Format, error) {
	var v Verdict
	format, err := c.verdict.decode(ctx, data, &v)
	if err != nil {
		return Verdict{}, format, err
	}
	v = v.normal()
	return v, format, v.Validate()
}

// EncodeClaim validates and writes a claim. schemaID is the registry's id of
// Schema(ClaimName); only Confluent uses it.
func (c *Codec) EncodeClaim(v Claim, format Format, schemaID int) ([]byte, error) {
	if err := v.Validate(c.opts.MaxText); err != nil {
		return nil, err
	}
	return c.claim.encode(v.normal(), format, schemaID)
}

// EncodePaper validates and writes a paper; see EncodeClaim.
func (c *Codec) EncodePaper(v Paper, format Format, schemaID int) ([]byte, error) {
	if err := v.Validate(); err != nil {
		return nil, err
	}
	return c.paper.encode(v.normal(), format, schemaID)
}

// EncodeVerdict validates and writes a verdict; see EncodeClaim.
func (c *Codec) EncodeVerdict(v Verdict, format Format, schemaID int) ([]byte, error) {
	if err := v.Validate(); err != nil {
		return nil, err
	}
	return c.verdict.encode(v.normal(), format, schemaID)
}

// record is the codec of one of the records.
type record struct {
	name        string
	opts        Options
	schema      avro.Schema
	fingerprint uint64
	own         *writer

	mu   sync.Mutex
	byID map[int]*writer // writers by Confluent id, at most maxWriters
}

// maxWriters bounds the writer's schemas kept; beyond it they are all forgotten
// and asked for again.
const maxWriters = 256

func newRecord(name string, opts Options) (*record, error) {
	text, err := Schema(name)
	if err != nil {
		return nil, err
	}
	schema, err := parse(text)
	if err != nil {
		return nil, err
	}
	r := &record{name: name, opts: opts, schema: schema, byID: map[int]*writer{}}
	if r.fingerprint, err = Fingerprint(text); err != nil {
		return nil, err
	}
	r.own = r.newWriter(schema, schema)
	return r, nil
}

// writer reads what was written with one schema. It has its own avro.API,
// because the API's cache of decoders only ever grows.
type writer struct {
	schema   avro.Schema // the bytes follow it
	resolved avro.Schema // schema as read into ours
	api      avro.API
}

func (r *record) newWriter(schema, resolved avro.Schema) *writer {
	return &writer{schema: schema, resolved: resolved, api: avro.Config{
		MaxByteSliceSize:       r.opts.MaxBytes,
		MaxSliceAllocSize:      maxItems, // the library compares it with a count of items
		DisableBlockSizeHeader: true,     // shorter, and nothing skips blocks
	}.Freeze()}
}

// parse keeps the schema's names apart from those of every other schema.
func parse(text string) (schema avro.Schema, err error) {
	defer recovered(&err)
	schema, err = avro.ParseBytesWithCache([]byte(text), "", &avro.SchemaCache{})
	if err != nil {
		return nil, fmt.Errorf("schemas: parse schema: %w", err)
	}
	return schema, nil
}

// recovered turns a panic of the Avro library into an error. scan is what keeps
// hostile bytes away from the library; this only keeps a defect of either from
// stopping the service.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("schemas: the Avro library failed (%v): %w", p, ErrMalformed)
	}
}

func (r *record) decode(ctx context.Context, data []byte, v any) (Format, error) {
	if len(data) > r.opts.MaxBytes {
		return 0, fmt.Errorf("schemas: %s: the record has %d bytes, the limit is %d: %w", r.name, len(data), r.opts.MaxBytes, ErrTooLarge)
	}
	if text := bytes.TrimLeft(bytes.TrimPrefix(data, []byte(byteOrderMark)), " \t\r\n"); len(text) == 0 {
		return 0, fmt.Errorf("schemas: %s: %w", r.name, ErrEmpty)
	} else if text[0] == '{' {
		return JSON, r.decodeJSON(text, v)
	}
	switch {
	case data[0] == 0xC3 && len(data) > 1 && data[1] == 0x01:
		if len(data) < singleObjectHeader {
			return SingleObject, fmt.Errorf("schemas: %s: %w: %w", r.name, errShort, ErrMalformed)
		}
		if fingerprint := binary.LittleEndian.Uint64(data[2:]); fingerprint != r.fingerprint {
			return SingleObject, fmt.Errorf("schemas: %s: the record's schema has fingerprint %016x, this version's has %016x: %w",
				r.name, fingerprint, r.fingerprint, ErrUnknownSchema)
		}
		return SingleObject, r.decodeBody(r.own, data[singleObjectHeader:], v)
	case data[0] == 0x00:
		if len(data) < confluentHeader {
			return Confluent, fmt.Errorf("schemas: %s: %w: %w", r.name, errShort, ErrMalformed)
		}
		w, err := r.writerByID(ctx, int(binary.BigEndian.Uint32(data[1:])))
		if err != nil {
			return Confluent, err
		}
		return Confluent, r.decodeBody(w, data[confluentHeader:], v)
	default:
		return 0, fmt.Errorf("schemas: %s: the record starts with % x: %w", r.name, data[:min(len(data), 4)], ErrFormat)
	}
}

func (r *record) decodeBody(w *writer, body []byte, v any) (err error) {
	defer recovered(&err)
	if err := scan(w.schema, body); err != nil {
		if Permanent(err) {
			return fmt.Errorf("schemas: %s: %w", r.name, err)
		}
		return fmt.Errorf("schemas: %s: %w: %w", r.name, err, ErrMalformed)
	}
	if err := w.api.Unmarshal(w.resolved, body, v); err != nil {
		return fmt.Errorf("schemas: %s: %w: %w", r.name, err, ErrMalformed)
	}
	return nil
}

func (r *record) writerByID(ctx context.Context, id int) (*writer, error) {
	r.mu.Lock()
	w := r.byID[id]
	r.mu.Unlock()
	if w != nil {
		return w, nil
	}
	if r.opts.Resolver == nil {
		return nil, fmt.Errorf("schemas: %s: the record names schema id %d and no schema registry is set: %w", r.name, id, ErrUnknownSchema)
	}
	text, err := r.opts.Resolver.SchemaByID(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("schemas: %s: schema id %d: %w", r.name, id, err)
	}
	if w, err = r.resolve(text); err != nil {
		return nil, fmt.Errorf("schemas: %s: schema id %d: %w: %w", r.name, id, err, ErrUnknownSchema)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) >= maxWriters {
		clear(r.byID)
	}
	r.byID[id] = w
	return w, nil
}

// resolve reads the writer's schema into ours (Avro specification, "Schema
// Resolution").
func (r *record) resolve(text string) (w *writer, err error) {
	defer recovered(&err)
	if len(text) > r.opts.MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes, the limit is %d", len(text), r.opts.MaxBytes)
	}
	schema, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := checkSchema(schema); err != nil {
		return nil, err
	}
	resolved, err := avro.NewSchemaCompatibility().Resolve(r.schema, schema)
	if err != nil {
		return nil, err
	}
	if err := checkResolved(r.schema, resolved); err != nil {
		return nil, err
	}
	return r.newWriter(schema, resolved), nil
}

func (r *record) encode(v any, format Format, schemaID int) (data []byte, err error) {
	defer recovered(&err)
	var header []byte
	switch format {
	case JSON:
		data, err = encodeJSON(v)
	case SingleObject:
		header = binary.LittleEndian.AppendUint64([]byte{0xC3, 0x01}, r.fingerprint)
	case Confluent:
		if schemaID < 0 || int64(schemaID) > 1<<32-1 {
			return nil, fmt.Errorf("schemas: %s: schema id %d: give the registry's id, 0 to 2^32-1", r.name, schemaID)
		}
		header = binary.BigEndian.AppendUint32([]byte{0x00}, uint32(schemaID))
	default:
		return nil, fmt.Errorf("schemas: %s: %v: %w", r.name, format, ErrFormat)
	}
	if header != nil {
		data, err = r.own.api.Marshal(r.schema, v)
		data = append(header, data...)
	}
	if err != nil {
		return nil, fmt.Errorf("schemas: encode %s: %w", r.name, err)
	}
	if len(data) > r.opts.MaxBytes {
		return nil, fmt.Errorf("schemas: encode %s: it has %d bytes, the limit is %d: %w", r.name, len(data), r.opts.MaxBytes, ErrTooLarge)
	}
	return data, nil
}
