package schemas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	other "github.com/twmb/avro"
)

func newTestCodec(t testing.TB, opts Options) *Codec {
	t.Helper()
	c, err := NewCodec(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ptr[T any](v T) *T { return &v }

var testTime = time.Date(2020, 3, 17, 12, 30, 15, 123e6, time.UTC)

func testClaim() Claim {
	return Claim{
		ID:         "scifact-3",
		Text:       "1,000 genomes project enables mapping of genetic sequence variation — β-cells, 细胞, 🧬.",
		Source:     "https://example.org/claims",
		Created:    ptr(testTime),
		Attributes: map[string]string{"split": "dev"},
	}
}

func testPaper() Paper {
	return Paper{
		ID:          "4983",
		Title:       "Microstructural development of human newborn cerebral white matter",
		Abstract:    []string{"First sentence.", "", "Zweiter Satz: α ≤ 0.05."},
		Identifiers: map[string]string{"doi": "10.1000/xyz"},
		Date:        "2001-07",
		URL:         "https://example.org/4983",
		Retracted:   true,
	}
}

func testVerdict() Verdict {
	return Verdict{
		ClaimID:    "scifact-3",
		Claim:      testClaim().Text,
		Label:      Conflicting,
		Confidence: 0.75,
		Counts:     Counts{Retrieved: 3, Support: 1, Contradict: 1, NotEnoughInfo: 1},
		Evidence: []Evidence{
			{
				PaperID: "4983", Title: "A title", URL: "https://example.org/4983", Label: Support,
				Probabilities: Probabilities{Contradict: 0.125, NotEnoughInfo: 0.125, Support: 0.75},
				Rationale: []RationaleSentence{
					{Index: 2, Text: "Zweiter Satz: α ≤ 0.05.", Score: 0.9375},
					{Index: 0, Text: "First sentence.", Score: 0.5},
				},
				RetrievalRank: 1, RetrievalScore: 12.5, Relevance: ptr(float32(0.625)),
			},
			{
				PaperID: "5", Label: Contradict,
				Probabilities: Probabilities{Contradict: 1},
				Rationale:     []RationaleSentence{{Index: 1, Text: "No.", Score: 1}},
				RetrievalRank: 2, RetrievalScore: -0.5,
			},
		},
		Provenance: Provenance{
			Rationale: ModelRef{Name: "rationale", Hash: strings.Repeat("ab", 32), Threshold: 0.5},
			Label:     ModelRef{Name: "label", Hash: strings.Repeat("cd", 32), Threshold: 0.25},
			Ranking:   "tfidf", K: 3, IndexVersion: "v7", Software: "1.0.0",
		},
		Times: Times{
			Created: ptr(testTime), Received: testTime.Add(time.Second), Produced: testTime.Add(2 * time.Second),
			RetrievalMs: 1.5, RationaleMs: 20.25, LabelMs: 30.125,
		},
	}
}

var formats = []Format{SingleObject, Confluent, JSON}

// oneSchema resolves every id to one schema.
type oneSchema string

func (s oneSchema) SchemaByID(context.Context, int) (string, error) { return string(s), nil }

// resolverMap resolves the ids it has.
type resolverMap map[int]string

func (m resolverMap) SchemaByID(_ context.Context, id int) (string, error) {
	if schema, ok := m[id]; ok {
		return schema, nil
	}
	return "", fmt.Errorf("no schema %d: %w", id, ErrUnknownSchema)
}

func mustSchema(t testing.TB, name string) string {
	t.Helper()
	text, err := Schema(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func roundTrip[T any](t *testing.T, name string, want T,
	encode func(*Codec) func(T, Format, int) ([]byte, error),
	decode func(*Codec) func(context.Context, []byte) (T, Format, error)) {
	t.Helper()
	c := newTestCodec(t, Options{Resolver: oneSchema(mustSchema(t, name))})
	for _, f := range formats {
		data, err := encode(c)(want, f, math.MaxUint32)
		if err != nil {
			t.Fatalf("%v: encode: %v", f, err)
		}
		got, gotFormat, err := decode(c)(t.Context(), data)
		if err != nil {
			t.Fatalf("%v: decode: %v", f, err)
		}
		if gotFormat != f {
			t.Errorf("%v was read as %v", f, gotFormat)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %+v, want %+v", f, got, want)
		}
	}
}

func roundTripClaim(t *testing.T, v Claim) {
	roundTrip(t, ClaimName, v,
		func(c *Codec) func(Claim, Format, int) ([]byte, error) { return c.EncodeClaim },
		func(c *Codec) func(context.Context, []byte) (Claim, Format, error) { return c.DecodeClaim })
}

func roundTripPaper(t *testing.T, v Paper) {
	roundTrip(t, PaperName, v,
		func(c *Codec) func(Paper, Format, int) ([]byte, error) { return c.EncodePaper },
		func(c *Codec) func(context.Context, []byte) (Paper, Format, error) { return c.DecodePaper })
}

func roundTripVerdict(t *testing.T, v Verdict) {
	roundTrip(t, VerdictName, v,
		func(c *Codec) func(Verdict, Format, int) ([]byte, error) { return c.EncodeVerdict },
		func(c *Codec) func(context.Context, []byte) (Verdict, Format, error) { return c.DecodeVerdict })
}

func TestRecordsComeBackFromEveryFormat(t *testing.T) {
	roundTripClaim(t, testClaim())
	roundTripPaper(t, testPaper())
	roundTripVerdict(t, testVerdict())
}

func TestNearlyEmptyRecordsComeBack(t *testing.T) {
	roundTripClaim(t, Claim{ID: "1", Text: "x"})
	roundTripPaper(t, Paper{ID: "1", Abstract: []string{}})
	roundTripVerdict(t, Verdict{ClaimID: "1", Claim: "x", Label: NotEnoughInfo, Evidence: []Evidence{}})
}

func TestExtremeValuesComeBack(t *testing.T) {
	c := testClaim()
	c.Source = strings.Repeat("ж", 32<<10) // 64 KiB
	c.Created = ptr(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	c.Attributes = map[string]string{}
	for i := range maxEntries {
		c.Attributes[fmt.Sprintf("key-%d", i)] = "<&>\u2028"
	}
	roundTripClaim(t, c)

	v := testVerdict()
	v.Evidence[0].Rationale = nil
	for i := range 1000 {
		v.Evidence[0].Rationale = append(v.Evidence[0].Rationale, RationaleSentence{Index: i, Text: "s", Score: 0.5})
	}
	v.Evidence[0].RetrievalRank = math.MaxInt32
	v.Evidence[0].RetrievalScore = -math.MaxFloat64
	v.Evidence[1].Title = strings.Repeat("x", 64<<10)
	v.Times.Produced = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	v.Times.LabelMs = math.SmallestNonzeroFloat64
	roundTripVerdict(t, v)
}

func TestTimesComeBackInMillisecondsOfUTCAndTheInputIsKept(t *testing.T) {
	c := newTestCodec(t, Options{})
	local := testTime.Add(999).In(time.FixedZone("east", 3600))
	in := testClaim()
	in.Created = &local
	for _, f := range []Format{SingleObject, JSON} {
		data, err := c.EncodeClaim(in, f, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := c.DecodeClaim(t.Context(), data)
		if err != nil || *got.Created != testTime {
			t.Errorf("%v: created %v, %v", f, got.Created, err)
		}
	}
	if *in.Created != testTime.Add(999).In(local.Location()) {
		t.Error("encoding changed the caller's claim")
	}
}

func TestTheOtherLibraryReadsAndWritesTheSame(t *testing.T) {
	c := newTestCodec(t, Options{})
	schema, err := other.Parse(mustSchema(t, VerdictName))
	if err != nil {
		t.Fatal(err)
	}
	want := testVerdict()
	data, err := c.EncodeVerdict(want, SingleObject, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got Verdict
	if rest, err := schema.DecodeSingleObject(data, &got); err != nil || len(rest) != 0 {
		t.Fatalf("%d bytes left, %v", len(rest), err)
	}
	if got = got.normal(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	theirs, err := schema.AppendSingleObject(nil, &want)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := c.DecodeVerdict(t.Context(), theirs)
	if err != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("%v: got %+v", err, back)
	}
}

func TestJSONIsFoundBehindSpaceAndByteOrderMark(t *testing.T) {
	c := newTestCodec(t, Options{})
	for _, prefix := range []string{"", " \r\n\t", byteOrderMark, byteOrderMark + "\n"} {
		got, f, err := c.DecodeClaim(t.Context(), []byte(prefix+`{"id":"1","text":"x"}`+"\n"))
		if err != nil || f != JSON || got.ID != "1" {
			t.Errorf("%q: %v, %v, %v", prefix, got, f, err)
		}
	}
}

func TestJSONPassesUnknownFieldsAndNullsBy(t *testing.T) {
	c := newTestCodec(t, Options{})
	got, _, err := c.DecodeClaim(t.Context(), []byte(`{"id":"1","text":"x","new":{"ID":[1,{}],"id":2},"source":null,"attributes":null}`))
	if want := (Claim{ID: "1", Text: "x"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	got, _, err = c.DecodeClaim(t.Context(), []byte(`{"id":"1","text":"x","attributes":{"a":"1","A":"2"}}`))
	if err != nil || len(got.Attributes) != 2 {
		t.Errorf("keys of a map are told apart by case: %+v, %v", got, err)
	}
}

func TestErrorsSayTheirKindAndArePermanent(t *testing.T) {
	c := newTestCodec(t, Options{MaxBytes: 8 << 10})
	good, err := c.EncodeClaim(testClaim(), SingleObject, 0)
	if err != nil {
		t.Fatal(err)
	}
	alien := bytes.Clone(good)
	alien[2] ^= 1
	deep := `{"id":"1","text":"x","more":` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + "}"
	for name, tt := range map[string]struct {
		data string
		want error
	}{
		"no bytes":                 {"", ErrEmpty},
		"white space":              {" \n\t", ErrEmpty},
		"byte order mark":          {byteOrderMark, ErrEmpty},
		"beyond the limit":         {strings.Repeat(" ", 8<<10) + "{", ErrTooLarge},
		"plain text":               {"Aspirin helps.", ErrFormat},
		"JSON array":               {"[]", ErrFormat},
		"UTF-16":                   {"\xff\xfe{\x00", ErrFormat},
		"half a header":            {"\xc3", ErrFormat},
		"torn single-object head":  {"\xc3\x01abc", ErrMalformed},
		"torn Confluent head":      {"\x00\x00", ErrMalformed},
		"Confluent, no resolver":   {"\x00\x00\x00\x00\x07body", ErrUnknownSchema},
		"unknown fingerprint":      {string(alien), ErrUnknownSchema},
		"trailing byte":            {string(good) + "\x00", ErrMalformed},
		"number for id":            {`{"id":3,"text":"x"}`, ErrMalformed},
		"field twice":              {`{"id":"1","id":"2","text":"x"}`, ErrMalformed},
		"attribute twice":          {`{"id":"1","text":"x","attributes":{"a":"1","a":"2"}}`, ErrMalformed},
		"field in capitals":        {`{"ID":"1","text":"x"}`, ErrMalformed},
		"object for text":          {`{"id":"1","text":{}}`, ErrMalformed},
		"two objects":              {`{"id":"1","text":"x"}{}`, ErrMalformed},
		"torn JSON":                {`{"id":"1","te`, ErrMalformed},
		"torn JSON after a value":  {`{"id":"1"`, ErrMalformed},
		"time that is no time":     {`{"id":"1","text":"x","created":"yesterday"}`, ErrMalformed},
		"deep JSON":                {deep, ErrMalformed},
		"JSON in Latin-1":          {"{\"id\":\"1\",\"text\":\"caf\xe9\"}", ErrNotUTF8},
		"no id":                    {`{"text":"x"}`, ErrInvalid},
		"no text":                  {`{"id":"1"}`, ErrInvalid},
		"blank text":               {`{"id":"1","text":" \u00a0\n"}`, ErrInvalid},
		"NUL in text":              {`{"id":"1","text":"a\u0000b"}`, ErrInvalid},
		"long id":                  {`{"id":"` + strings.Repeat("x", maxID+1) + `","text":"x"}`, ErrTooLarge},
		"long text":                {`{"id":"1","text":"` + strings.Repeat("x", DefaultMaxText+1) + `"}`, ErrTooLarge},
		"SciFact's own claim line": {`{"id": 3, "claim": "1,000 genomes", "evidence": {}}`, ErrMalformed},
	} {
		_, _, err := c.DecodeClaim(t.Context(), []byte(tt.data))
		if !errors.Is(err, tt.want) || !Permanent(err) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "schemas: ") {
			t.Errorf("%s: %q lacks the area", name, err)
		}
	}
	if _, _, err := c.DecodeClaim(t.Context(), alien); !strings.Contains(err.Error(), fmt.Sprintf("%016x", c.claim.fingerprint^1)) {
		t.Errorf("%v does not name the fingerprint", err)
	}
}

func TestEveryTornRecordIsRefused(t *testing.T) {
	c := newTestCodec(t, Options{})
	for _, f := range []Format{SingleObject, JSON} {
		data, err := c.EncodeVerdict(testVerdict(), f, 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := range data {
			if _, _, err := c.DecodeVerdict(t.Context(), data[:n]); !Permanent(err) {
				t.Fatalf("%v: the first %d of %d bytes: %v", f, n, len(data), err)
			}
		}
	}
}

func TestInvalidRecordComesBackBesideTheError(t *testing.T) {
	c := newTestCodec(t, Options{})
	got, f, err := c.DecodeClaim(t.Context(), []byte(`{"id":"7","text":" "}`))
	if got.ID != "7" || f != JSON || !errors.Is(err, ErrInvalid) {
		t.Errorf("%+v, %v, %v", got, f, err)
	}
}

func TestEncodingRefusesWhatDecodingWould(t *testing.T) {
	c := newTestCodec(t, Options{MaxBytes: 1000})
	change := func(f func(*Verdict)) Verdict { v := testVerdict(); f(&v); return v }
	for name, tt := range map[string]struct {
		v    Verdict
		want error
	}{
		"no id":                {change(func(v *Verdict) { v.ClaimID = "" }), ErrInvalid},
		"no label":             {change(func(v *Verdict) { v.Label = "" }), ErrInvalid},
		"conflicting evidence": {change(func(v *Verdict) { v.Evidence[0].Label = Conflicting }), ErrInvalid},
		"NaN":                  {change(func(v *Verdict) { v.Confidence = math.NaN() }), ErrInvalid},
		"infinite score":       {change(func(v *Verdict) { v.Evidence[0].RetrievalScore = math.Inf(1) }), ErrInvalid},
		"count beyond an int":  {change(func(v *Verdict) { v.Counts.Retrieved = math.MaxInt32 + 1 }), ErrInvalid},
		"negative rank":        {change(func(v *Verdict) { v.Evidence[0].RetrievalRank = -1 }), ErrInvalid},
		"year 10000":           {change(func(v *Verdict) { v.Times.Produced = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), ErrInvalid},
		"broken UTF-8":         {change(func(v *Verdict) { v.Evidence[0].Title = "\xff" }), ErrNotUTF8},
		"beyond the limit":     {change(func(v *Verdict) { v.Evidence[0].Title = strings.Repeat("x", 1000) }), ErrTooLarge},
	} {
		for _, f := range formats {
			if _, err := c.EncodeVerdict(tt.v, f, 1); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v: %v, want %v", name, f, err, tt.want)
			}
		}
	}
	if _, err := c.EncodeClaim(testClaim(), 0, 0); !errors.Is(err, ErrFormat) {
		t.Errorf("no format: %v", err)
	}
	if _, err := c.EncodeClaim(testClaim(), Confluent, -1); err == nil {
		t.Error("a negative schema id was written")
	}
}

func TestAttributesAreBounded(t *testing.T) {
	many := map[string]string{}
	for i := range maxEntries + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for _, tt := range []struct {
		attributes map[string]string
		want       error
	}{
		{many, ErrInvalid},
		{map[string]string{strings.Repeat("k", maxEntryKey+1): ""}, ErrTooLarge},
		{map[string]string{"k": strings.Repeat("v", maxEntryValue+1)}, ErrTooLarge},
		{map[string]string{"k": "\xff"}, ErrNotUTF8},
	} {
		c := testClaim()
		c.Attributes = tt.attributes
		if err := c.Validate(0); !errors.Is(err, tt.want) {
			t.Errorf("%v, want %v", err, tt.want)
		}
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for _, opts := range []Options{{MaxBytes: -1}, {MaxText: -1}} {
		if _, err := NewCodec(opts); err == nil {
			t.Errorf("%+v was taken", opts)
		}
	}
}

func TestEverySchemaElementHasADoc(t *testing.T) {
	var walk func(path string, v any) (fields int)
	walk = func(path string, v any) (fields int) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				fields += walk(path, item)
			}
		case map[string]any:
			if name, named := v["name"]; named {
				path = fmt.Sprint(path, ".", name)
				fields++
				if doc, _ := v["doc"].(string); doc == "" {
					t.Errorf("%s has no doc", path)
				}
			}
			for _, key := range []string{"type", "items", "values", "fields"} {
				fields += walk(path, v[key])
			}
		}
		return fields
	}
	for name, want := range map[string]reflect.Type{ClaimName: reflect.TypeFor[Claim](), PaperName: reflect.TypeFor[Paper](), VerdictName: reflect.TypeFor[Verdict]()} {
		var schema any
		if err := json.Unmarshal([]byte(mustSchema(t, name)), &schema); err != nil {
			t.Fatal(err)
		}
		if n := walk("", schema); n <= want.NumField() {
			t.Errorf("%s: the walk saw %d names", name, n)
		}
	}
}

func TestSchemaOfUnknownRecordIsAnError(t *testing.T) {
	for _, name := range []string{"", "nothing", "../avsc/claim"} {
		if _, err := Schema(name); err == nil {
			t.Errorf("%q has a schema", name)
		}
	}
}
