// Package tokenizer turns text into the input ids of a transformer encoder. It
// reads the tokenizer.json that accompanies a model and gives the same ids as
// Hugging Face tokenizers 0.23 does for that file.
//
// Two families are covered:
//
//   - WordPiece with BERT's normaliser and pre-tokeniser (BERT, MiniLM, MPNet;
//     Devlin et al. 2019, section 3), and
//   - byte-level BPE with GPT-2's pattern (GPT-2, RoBERTa; Radford et al. 2019,
//     section 2.2).
//
// A file that asks for anything else is refused by Parse: ids that differ
// silently from those a model was trained on cost accuracy that no test of the
// pipeline would show.
//
// The categories of characters are frozen in tables.go as the reference has
// them, so that a newer Go, with a newer Unicode, changes no id.
//
// The package does not decode ids, train vocabularies, pad or build tensors:
// padding belongs to whoever forms a batch. The sections truncation and padding
// of tokenizer.json are not obeyed: lengths are arguments here.
package tokenizer
