package schemas

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// allocated returns the bytes that f allocates on the heap.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func avroLong(n int64) string { return string(binary.AppendVarint(nil, n)) }

func avroString(s string) string { return avroLong(int64(len(s))) + s }

func bombHeader(t *testing.T, name string) string {
	t.Helper()
	fingerprint, err := Fingerprint(mustSchema(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(binary.LittleEndian.AppendUint64([]byte{0xC3, 1}, fingerprint))
}

// The bombs start where a good claim has its attributes: a map.
func TestDecodeBombsAreRefusedInBoundedMemory(t *testing.T) {
	c := newTestCodec(t, Options{})
	head := bombHeader(t, ClaimName)
	upToMap := head + avroString("1") + avroString("x") + avroString("") + avroLong(0)
	if _, _, err := c.DecodeClaim(t.Context(), []byte(upToMap+avroLong(0))); err != nil {
		t.Fatalf("the bombs' start is not sound: %v", err)
	}
	verdict := bombHeader(t, VerdictName) + avroString("1") + avroString("x") + avroLong(0) + strings.Repeat("\x00", 8+4)
	for name, bomb := range map[string]struct {
		decode func([]byte) error
		data   string
	}{
		"string of 1 TiB":              {c.claimError, head + avroLong(1<<40)},
		"string of MaxInt64":           {c.claimError, head + avroLong(math.MaxInt64)},
		"string of negative length":    {c.claimError, head + avroLong(-1)},
		"string of MinInt64":           {c.claimError, head + avroLong(math.MinInt64)},
		"number without end":           {c.claimError, head + strings.Repeat("\xff", 64)},
		"number beyond 64 bits":        {c.claimError, head + strings.Repeat("\xff", 9) + "\x7f"},
		"union index out of range":     {c.claimError, head + avroString("1") + avroString("x") + avroString("") + avroLong(2)},
		"union index in 6 bytes":       {c.claimError, head + avroString("1") + avroString("x") + avroString("") + "\x80\x80\x80\x80\x80\x00" + avroLong(0)},
		"map of 2^62":                  {c.claimError, upToMap + avroLong(1<<62)},
		"map of -MinInt64":             {c.claimError, upToMap + avroLong(math.MinInt64) + avroLong(0)},
		"map of many, bytes for one":   {c.claimError, upToMap + avroLong(maxItems) + avroString("k") + avroString("v")},
		"map beyond the budget":        {c.claimError, upToMap + avroLong(maxItems+1) + strings.Repeat("\x00", 2*(maxItems+1)) + avroLong(0)},
		"map blocks beyond the budget": {c.claimError, upToMap + strings.Repeat(avroLong(1)+"\x00\x00", maxItems+1) + avroLong(0)},
		"block size of MaxInt64":       {c.claimError, upToMap + avroLong(-1) + avroLong(math.MaxInt64) + "\x00\x00" + avroLong(0)},
		"block size negative":          {c.claimError, upToMap + avroLong(-1) + avroLong(-1) + "\x00\x00" + avroLong(0)},
		"block size too small":         {c.claimError, upToMap + avroLong(-1) + avroLong(1) + "\x00\x00" + avroLong(0)},
		"array of 2^62":                {c.verdictError, verdict + avroLong(1<<62)},
		"array within the budget":      {c.verdictError, verdict + avroLong(maxItems)},
		"enum out of range":            {c.verdictError, bombHeader(t, VerdictName) + avroString("1") + avroString("x") + avroLong(4)},
		"JSON objects, 1 MiB":          {c.claimError, `{"a":[` + strings.Repeat(`{},`, 340_000)},
		"JSON arrays, deep":            {c.claimError, `{"a":` + strings.Repeat(`[`, 1_000_000)},
		"JSON number of 1 MiB":         {c.claimError, `{"id":` + strings.Repeat(`9`, 1_000_000) + `}`},
	} {
		data := []byte(bomb.data)
		var err error
		n := allocated(func() { err = bomb.decode(data) })
		if !Permanent(err) {
			t.Errorf("%s: %v, want a permanent error", name, err)
		}
		// JSON pays for the tokens it reads; Avro is refused before it is read.
		limit := uint64(64 << 10)
		if strings.HasPrefix(name, "JSON") {
			limit = 16 << 20
		}
		if n > limit {
			t.Errorf("%s: allocated %d bytes for %d, the limit is %d", name, n, len(data), limit)
		}
	}
}

func (c *Codec) claimError(data []byte) error {
	_, _, err := c.DecodeClaim(context.Background(), data)
	return err
}

func (c *Codec) verdictError(data []byte) error {
	_, _, err := c.DecodeVerdict(context.Background(), data)
	return err
}

func TestDensestRecordDecodesInBoundedMemory(t *testing.T) {
	c := newTestCodec(t, Options{})
	// Evidence: id, title and url empty, label 0, three floats, no rationale,
	// rank 0, score 0, relevance null.
	evidence := "\x00\x00\x00\x00" + strings.Repeat("\x00", 12) + "\x00" + "\x00" + strings.Repeat("\x00", 8) + "\x00"
	modelRef := "\x00\x00" + strings.Repeat("\x00", 8)
	n := (1<<20 - 200) / len(evidence)
	data := bombHeader(t, VerdictName) + avroString("1") + avroString("x") + avroLong(0) + strings.Repeat("\x00", 8+4) +
		avroLong(int64(n)) + strings.Repeat(evidence, n) + avroLong(0) +
		modelRef + modelRef + "\x00\x00\x00\x00" + "\x00\x00\x00" + strings.Repeat("\x00", 24)
	var err error
	used := allocated(func() { err = c.verdictError([]byte(data)) })
	if !errors.Is(err, ErrInvalid) { // it decodes; its papers have no id
		t.Fatalf("%v, want ErrInvalid", err)
	}
	if used > 64<<20 {
		t.Errorf("a record of %d bytes took %d", len(data), used)
	}
	t.Logf("a record of %d bytes took %d", len(data), used)
}

func TestDensestMapDecodesInBoundedMemory(t *testing.T) {
	c := newTestCodec(t, Options{})
	var b strings.Builder
	b.WriteString(bombHeader(t, ClaimName) + avroString("1") + avroString("x") + avroString("") + avroLong(0) + avroLong(maxItems))
	for i := range maxItems {
		fmt.Fprintf(&b, "\x08%04x\x00", i) // a key of 4 bytes, no value
	}
	data := []byte(b.String() + avroLong(0))
	var err error
	used := allocated(func() { err = c.claimError(data) })
	if !errors.Is(err, ErrInvalid) { // it decodes; it has too many attributes
		t.Fatalf("%v, want ErrInvalid", err)
	}
	if used > 64<<20 {
		t.Errorf("a record of %d bytes took %d", len(data), used)
	}
	t.Logf("a record of %d bytes took %d", len(data), used)
}

func TestMapsInSizedBlocksAreRead(t *testing.T) {
	c := newTestCodec(t, Options{})
	entry := avroString("k") + avroString("v")
	data := bombHeader(t, ClaimName) + avroString("1") + avroString("x") + avroString("") + avroLong(0) +
		avroLong(-1) + avroLong(int64(len(entry))) + entry + avroLong(1) + avroString("l") + avroString("w") + avroLong(0)
	got, _, err := c.DecodeClaim(t.Context(), []byte(data))
	if want := map[string]string{"k": "v", "l": "w"}; err != nil || !reflect.DeepEqual(got.Attributes, want) {
		t.Errorf("%v, %v", got.Attributes, err)
	}
}

func confluent(body string) []byte { return append([]byte{0, 0, 0, 0, 7}, body...) }

const claimV = `{"type":"record","name":"Claim","namespace":"verisci.v1","fields":[%s]}`

func TestWritersWithOtherSchemasAreRead(t *testing.T) {
	for name, tt := range map[string]struct {
		fields, body string
		want         Claim
	}{
		"only what has no default": {
			`{"name":"text","type":"string"},{"name":"id","type":"string"}`,
			avroString("x") + avroString("1"),
			Claim{ID: "1", Text: "x"},
		},
		"more fields": {
			`{"name":"id","type":"string"},
			 {"name":"tags","type":{"type":"array","items":{"type":"record","name":"Tag","fields":[{"name":"n","type":["null","long"]}]}}},
			 {"name":"more","type":{"type":"map","values":"bytes"}},
			 {"name":"hash","type":{"type":"fixed","name":"Hash","size":2}},
			 {"name":"text","type":"string"}`,
			avroString("1") + avroLong(2) + avroLong(1) + avroLong(7) + avroLong(0) + avroLong(0) +
				avroLong(-1) + avroLong(3) + avroString("k") + avroString("") + avroLong(0) + "ab" + avroString("x"),
			Claim{ID: "1", Text: "x"},
		},
		"created without a logical type": {
			`{"name":"id","type":"string"},{"name":"text","type":"string"},{"name":"created","type":["null","long"]}`,
			avroString("1") + avroString("x") + avroLong(1) + avroLong(testTime.UnixMilli()),
			Claim{ID: "1", Text: "x", Created: ptr(testTime)},
		},
		"created null last": {
			`{"name":"id","type":"string"},{"name":"text","type":"string"},{"name":"created","type":[{"type":"long","logicalType":"timestamp-millis"},"null"]}`,
			avroString("1") + avroString("x") + avroLong(0) + avroLong(testTime.UnixMilli()),
			Claim{ID: "1", Text: "x", Created: ptr(testTime)},
		},
		"id as bytes": {
			`{"name":"id","type":"bytes"},{"name":"text","type":"string"}`,
			avroString("1") + avroString("x"),
			Claim{ID: "1", Text: "x"},
		},
	} {
		c := newTestCodec(t, Options{Resolver: oneSchema(fmt.Sprintf(claimV, tt.fields))})
		for range 2 { // the second time from the codec's memory
			got, f, err := c.DecodeClaim(t.Context(), confluent(tt.body))
			if err != nil || f != Confluent || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: %+v, %v, %v", name, got, f, err)
			}
		}
		if _, _, err := c.DecodeClaim(t.Context(), confluent(tt.body+"\x00")); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: trailing byte: %v", name, err)
		}
	}
}

func TestVerdictsOfTheSmallestWriterGetEveryDefault(t *testing.T) {
	schema := `{"type":"record","name":"Verdict","namespace":"verisci.v1","fields":[
		{"name":"claim_id","type":"string"},{"name":"claim","type":"string"},
		{"name":"label","type":{"type":"enum","name":"VerdictLabel","symbols":["PERHAPS","SUPPORT"]}},
		{"name":"times","type":{"type":"record","name":"Times","fields":[]}}]}`
	c := newTestCodec(t, Options{Resolver: oneSchema(schema)})
	for i, want := range []Label{NotEnoughInfo, Support} {
		got, _, err := c.DecodeVerdict(t.Context(), confluent(avroString("1")+avroString("x")+avroLong(int64(i))))
		if err != nil || got.Label != want || got.Times.Received.UnixMilli() != 0 || len(got.Evidence) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestHostileWritersSchemasAreRefused(t *testing.T) {
	const known = `{"name":"id","type":"string"},{"name":"text","type":"string"},`
	doubling := `{"name":"f0","type":{"type":"record","name":"R0","fields":[{"name":"x","type":"null"}]}}`
	for i := 1; i < 40; i++ {
		doubling += fmt.Sprintf(`,{"name":"f%d","type":{"type":"record","name":"R%d","fields":[{"name":"a","type":"R%d"},{"name":"b","type":"R%d"}]}}`, i, i, i-1, i-1)
	}
	for name, schema := range map[string]string{
		"not a schema":          "<html>",
		"empty":                 "",
		"another record":        mustSchema(t, PaperName),
		"id is a map":           fmt.Sprintf(claimV, `{"name":"id","type":{"type":"map","values":"string"}},{"name":"text","type":"string"}`),
		"created not nullable":  fmt.Sprintf(claimV, known+`{"name":"created","type":{"type":"long","logicalType":"timestamp-millis"}}`),
		"text in a union":       fmt.Sprintf(claimV, `{"name":"id","type":"string"},{"name":"text","type":["string"]}`),
		"text is missing":       fmt.Sprintf(claimV, `{"name":"id","type":"string"}`),
		"refers to itself":      fmt.Sprintf(claimV, known+`{"name":"next","type":["null","Claim"]}`),
		"skipped list of lists": fmt.Sprintf(claimV, known+`{"name":"l","type":{"type":"record","name":"L","fields":[{"name":"l","type":{"type":"array","items":"L"}}]}}`),
		"doubles 40 times":      fmt.Sprintf(claimV, known+doubling),
		"nested 5,000 deep":     fmt.Sprintf(claimV, known+`{"name":"d","type":`+strings.Repeat(`{"type":"array","items":`, 5000)+`"int"`+strings.Repeat("}", 5000)+`}`),
		"beyond the limit":      `"` + strings.Repeat("x", 1<<20) + `"`,
	} {
		c := newTestCodec(t, Options{Resolver: oneSchema(schema)})
		if err := c.claimError(confluent(avroString("1") + avroString("x"))); !errors.Is(err, ErrUnknownSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestItemsWithoutBytesAreBounded(t *testing.T) {
	for name, typ := range map[string]string{
		"nulls":         `"null"`,
		"empty records": `{"type":"record","name":"E","fields":[]}`,
		"fixed of 0":    `{"type":"fixed","name":"F","size":0}`,
	} {
		schema := fmt.Sprintf(claimV, `{"name":"id","type":"string"},{"name":"text","type":"string"},{"name":"n","type":{"type":"array","items":`+typ+`}}`)
		c := newTestCodec(t, Options{Resolver: oneSchema(schema)})
		for _, n := range []int64{maxItems + 1, 1 << 40, math.MaxInt64} {
			err := c.claimError(confluent(avroString("1") + avroString("x") + avroLong(n) + avroLong(0)))
			if !Permanent(err) {
				t.Errorf("%s: %d items: %v", name, n, err)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) SchemaByID(context.Context, int) (string, error) { return "", f.err }

func TestResolverErrorsKeepTheirKind(t *testing.T) {
	down := errors.New("connection refused")
	c := newTestCodec(t, Options{Resolver: failing{down}})
	if err := c.claimError(confluent("")); !errors.Is(err, down) || Permanent(err) {
		t.Errorf("transient: %v", err)
	}
	c = newTestCodec(t, Options{Resolver: failing{fmt.Errorf("registry: no such id: %w", ErrUnknownSchema)}})
	if err := c.claimError(confluent("")); !Permanent(err) {
		t.Errorf("permanent: %v", err)
	}
}

// countingResolver counts what it is asked.
type countingResolver struct {
	schema string
	asked  int
}

func (r *countingResolver) SchemaByID(context.Context, int) (string, error) {
	r.asked++
	return r.schema, nil
}

func TestWritersSchemasAreKeptUpToALimit(t *testing.T) {
	r := &countingResolver{schema: mustSchema(t, ClaimName)}
	c := newTestCodec(t, Options{Resolver: r})
	data, err := c.EncodeClaim(testClaim(), Confluent, 0)
	if err != nil {
		t.Fatal(err)
	}
	for id := range 3 * maxWriters {
		binary.BigEndian.PutUint32(data[1:], uint32(id/2))
		if err := c.claimError(data); err != nil {
			t.Fatal(err)
		}
		if len(c.claim.byID) > maxWriters {
			t.Fatalf("%d writers kept", len(c.claim.byID))
		}
	}
	if want := 3 * maxWriters / 2; r.asked != want {
		t.Errorf("asked %d times, want %d", r.asked, want)
	}
}

func TestCodecIsSafeForConcurrentUse(t *testing.T) {
	c := newTestCodec(t, Options{Resolver: oneSchema(mustSchema(t, VerdictName))})
	want := testVerdict()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for id := range 60 {
				data, err := c.EncodeVerdict(want, formats[id%len(formats)], id)
				if err != nil {
					t.Error(err)
					return
				}
				if got, _, err := c.DecodeVerdict(context.Background(), data); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%v: %+v", err, got)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestPanicBecomesAnError(t *testing.T) {
	err := func() (err error) {
		defer recovered(&err)
		panic("index out of range")
	}()
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "index out of range") {
		t.Error(err)
	}
}

func fuzzSeeds(f *testing.F, good [][]byte) {
	for _, data := range good {
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(append(bytes.Clone(data), 0))
	}
	f.Add([]byte(nil))
	f.Add([]byte("\xc3\x01"))
	f.Add([]byte(`{"id":3,"claim":"x"}`))
	f.Add([]byte(byteOrderMark + ` {"id":"1","text":"x","attributes":{"a":null}}`))
}

// What decodes must encode, and come back the same.
func FuzzDecodeClaim(f *testing.F) {
	c := newTestCodec(f, Options{Resolver: oneSchema(mustSchema(f, ClaimName))})
	var seeds [][]byte
	for _, format := range formats {
		data, err := c.EncodeClaim(testClaim(), format, 7)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, data)
	}
	fuzzSeeds(f, seeds)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, format, err := c.DecodeClaim(t.Context(), data)
		if err != nil {
			if !Permanent(err) {
				t.Fatalf("%v is not permanent", err)
			}
			return
		}
		again, err := c.EncodeClaim(v, format, 7)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := c.DecodeClaim(t.Context(), again); err != nil || !reflect.DeepEqual(back, v) {
			t.Fatalf("%v: %+v became %+v", err, v, back)
		}
	})
}

func FuzzDecodeVerdict(f *testing.F) {
	c := newTestCodec(f, Options{Resolver: oneSchema(mustSchema(f, VerdictName))})
	var seeds [][]byte
	for _, format := range formats {
		data, err := c.EncodeVerdict(testVerdict(), format, 7)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, data)
	}
	fuzzSeeds(f, seeds)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, format, err := c.DecodeVerdict(t.Context(), data)
		if err != nil {
			if !Permanent(err) {
				t.Fatalf("%v is not permanent", err)
			}
			return
		}
		again, err := c.EncodeVerdict(v, format, 7)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := c.DecodeVerdict(t.Context(), again); err != nil || !reflect.DeepEqual(back, v) {
			t.Fatalf("%v: %+v became %+v", err, v, back)
		}
	})
}
