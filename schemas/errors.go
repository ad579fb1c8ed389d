package schemas

import "errors"

// The permanent errors of this package: the same bytes fail again however often
// they are tried, so they belong with the dead letters. Errors returned wrap one
// of these with the detail; tell them apart with errors.Is.
var (
	ErrEmpty         = errors.New("the record is empty; send a claim, a paper or a verdict as the record's value")
	ErrTooLarge      = errors.New("too large; shorten it or raise the limit")
	ErrNotUTF8       = errors.New("not valid UTF-8; encode the text as UTF-8")
	ErrFormat        = errors.New("unknown wire format; send Avro single-object encoding (C3 01), Confluent framing (00) or a JSON object")
	ErrUnknownSchema = errors.New("unknown schema; write with this version's schema, or register the writer's and give the codec a resolver")
	ErrMalformed     = errors.New("malformed; write the record again with its schema")
	ErrInvalid       = errors.New("invalid; correct the field named")
)

// Permanent reports whether err is one of this package's permanent errors.
// What a Resolver could not do just now is not: retry it.
func Permanent(err error) bool {
	for _, target := range []error{ErrEmpty, ErrTooLarge, ErrNotUTF8, ErrFormat, ErrUnknownSchema, ErrMalformed, ErrInvalid} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
