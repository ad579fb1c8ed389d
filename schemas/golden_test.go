package schemas

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	other "github.com/twmb/avro"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The golden records hold at most one entry a map, whose order is not fixed.
func TestBytesOnTheWireDoNotChange(t *testing.T) {
	c := newTestCodec(t, Options{
		Resolver: resolverMap{7: mustSchema(t, ClaimName), 8: mustSchema(t, PaperName), 9: mustSchema(t, VerdictName)},
	})
	for name, encode := range map[string]func(Format) ([]byte, error){
		ClaimName:   func(f Format) ([]byte, error) { return c.EncodeClaim(testClaim(), f, 7) },
		PaperName:   func(f Format) ([]byte, error) { return c.EncodePaper(testPaper(), f, 8) },
		VerdictName: func(f Format) ([]byte, error) { return c.EncodeVerdict(testVerdict(), f, 9) },
	} {
		for _, f := range formats {
			path := filepath.Join("testdata", "golden", name+"."+f.String())
			data, err := encode(f)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(data, golden) {
				t.Errorf("%s: the bytes have changed; readers out there have the old ones", path)
			}
			var got, want any
			switch name {
			case ClaimName:
				got, _, err = c.DecodeClaim(t.Context(), golden)
				want = testClaim()
			case PaperName:
				got, _, err = c.DecodePaper(t.Context(), golden)
				want = testPaper()
			case VerdictName:
				got, _, err = c.DecodeVerdict(t.Context(), golden)
				want = testVerdict()
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v: got %+v", path, err, got)
			}
		}
	}
}

// The wanted values were computed with fastavro 1.13.1; that of "null" is the
// specification's own example.
func TestFingerprintsAreThoseOfOtherLibraries(t *testing.T) {
	for schema, want := range map[string]uint64{
		`"null"`:                   0x63dd24e7cc258f8a,
		mustSchema(t, ClaimName):   0x91bed4b1c50d8eea,
		mustSchema(t, PaperName):   0x11904f9e69969c13,
		mustSchema(t, VerdictName): 0xf9d62d02aa2179f5,
	} {
		got, err := Fingerprint(schema)
		if err != nil || got != want {
			t.Errorf("%.40s: %016x, %v, want %016x", schema, got, err, want)
		}
		parsed, err := other.Parse(schema)
		if err != nil {
			t.Fatal(err)
		}
		if twmb := binary.LittleEndian.Uint64(rabin(parsed)); twmb != want {
			t.Errorf("%.40s: twmb/avro has %016x, want %016x", schema, twmb, want)
		}
	}
	for _, bad := range []string{"", "{", `{"type":"record"}`, `"nothing"`} {
		if _, err := Fingerprint(bad); err == nil {
			t.Errorf("%q has a fingerprint", bad)
		}
	}
}

// rabin is the fingerprint as single-object encoding has it.
func rabin(s *other.Schema) []byte {
	h := other.NewRabin()
	s.Fingerprint(h)
	return binary.LittleEndian.AppendUint64(nil, h.Sum64())
}

func BenchmarkDecodeClaim(b *testing.B) {
	c := newTestCodec(b, Options{Resolver: oneSchema(mustSchema(b, ClaimName))})
	for _, f := range formats {
		data, err := c.EncodeClaim(testClaim(), f, 7)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(f.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, _, err := c.DecodeClaim(b.Context(), data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeVerdict(b *testing.B) {
	c := newTestCodec(b, Options{})
	v := testVerdict()
	for _, f := range formats {
		b.Run(f.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.EncodeVerdict(v, f, 7); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
