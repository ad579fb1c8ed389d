package tokenizer

import (
	"strings"
	"testing"
)

// A sentence and a claim of usual length.
const (
	benchSentence = "Resistance to infection was associated with IFN-γ-producing CD4+ T cells (p<0.001), whereas the 1,24-dihydroxyvitamin D3 level in naïve donors had no measurable effect on viral load."
	benchClaim    = "1,000 genomes project enables mapping of genetic sequence variation consisting of rare variants."
)

func BenchmarkEncodePair(b *testing.B) {
	for _, config := range []string{"bert", "mpnet", "roberta"} {
		b.Run(config, func(b *testing.B) {
			tok := testVectors(b).tokenizer(b, config)
			b.SetBytes(int64(len(benchSentence) + len(benchClaim)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tok.EncodePair(benchSentence, benchClaim, 512); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Text of mostly new words, which no cache helps.
func BenchmarkEncodeRare(b *testing.B) {
	v := testVectors(b)
	text := strings.Join(v.Strings[100:], "\n")
	for _, config := range []string{"bert", "roberta"} {
		b.Run(config, func(b *testing.B) {
			tok := v.tokenizer(b, config)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text)
			}
		})
	}
}
