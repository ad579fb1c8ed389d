// Package models loads model bundles and runs them on ONNX Runtime.
//
// A bundle is a folder: model.onnx, tokenizer.json and bundle.json, the last of
// which says everything a stage has to know of the model (task, pair order,
// labels, threshold). Any Hugging Face sequence-pair classifier becomes one
// with models/export.
//
// The package turns pairs of texts into logits, a padded batch at a time. It
// does not decide what to batch (package stages does) nor what a logit means
// for a claim.
package models
