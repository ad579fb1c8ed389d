// Package schemas holds VeriSci's records (Claim, Paper, Verdict), their Avro
// schemas and the only code that turns records into bytes and back.
//
// It is the one place that imports an Avro library, so that every bound on
// decoding untrusted bytes stands here. It is not for Kafka (topics, keys and
// headers belong to the producer and consumer packages) and not for talking to
// a schema registry (see Resolver).
//
// # Formats
//
// A record is read in single-object encoding, in Confluent framing or as plain
// JSON, told apart by its first bytes (see Format). In single-object encoding
// only this version's schema is known. In Confluent framing the writer's schema
// comes from the Resolver and is resolved into ours as the Avro specification
// says, with two limits: a schema must not refer to itself, and a field is
// nullable for both sides or for neither.
//
// # Evolution
//
// Every field has a default but those without which there is no record: the ids
// and texts, a label, and the verdict's times (the Avro library cannot read a
// default that holds a nullable field). New fields need a default. A symbol
// that a reader does not know is read as NOT_ENOUGH_INFO.
//
// # Security
//
// The Avro library, hamba/avro v2.31.0, is archived with three advisories on
// decoding untrusted bytes open. No bytes reach its decoder before these steps:
// the record's size is capped (Options.MaxBytes); the writer's schema is checked
// to be finite (checkSchema); and the body is walked along that schema (scan),
// which allocates no memory that the bytes ask for and accepts only a body whose
// every length, count and index is true of the bytes that are there.
//
//   - CVE-2026-46384, integer overflow: a length or count that overflows is larger
//     than the bytes left or than maxItems, or is negative; scan refuses each, and
//     numbers of more bytes than an int or a long has.
//   - CVE-2026-46385, exhaustion of the processor: the library loops as often as
//     a block's count says, for maps and skipped fields even past the end of the
//     bytes. scan stops at the end, and items that take no bytes are bounded by
//     maxItems a record.
//   - GHSA-mx64-mj3q-7prj, exhaustion of memory: the library reserves memory by the
//     count or length announced. scan has seen all those items by then, so memory
//     is in the order of the record's size; avro.Config's MaxByteSliceSize and
//     MaxSliceAllocSize are set as well.
//
// Beyond the advisories, the library takes a body that ends too early for a good
// one, ignores bytes after it, and skips blocks by a size that it does not check;
// scan refuses all three. A panic inside the library becomes ErrMalformed, but
// nothing relies on that. The tests hold bombs for each case, with the memory
// they may take, and FuzzDecodeClaim and FuzzDecodeVerdict look for more.
package schemas
