package consumer

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/producer"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

// Stages of a dead letter.
const (
	stageFetch   = "fetch"
	stageDecode  = "decode"
	stageVerify  = "verify"
	stagePublish = "publish"
)

// classes name the permanent errors in the headers of dead letters and in the
// counters. The names are part of what others filter and alert on: keep them.
var classes = []struct {
	err  error
	name string
}{
	{kgo.ErrMaxDecompress, "kgo.ErrDecompressTooLarge"},
	{schemas.ErrEmpty, "schemas.ErrEmpty"},
	{schemas.ErrTooLarge, "schemas.ErrTooLarge"},
	{schemas.ErrNotUTF8, "schemas.ErrNotUTF8"},
	{schemas.ErrFormat, "schemas.ErrFormat"},
	{schemas.ErrUnknownSchema, "schemas.ErrUnknownSchema"},
	{schemas.ErrMalformed, "schemas.ErrMalformed"},
	{schemas.ErrInvalid, "schemas.ErrInvalid"},
	{stages.ErrClaimTooLong, "stages.ErrClaimTooLong"},
	{producer.ErrTooLarge, "producer.ErrTooLarge"},
}

// failure is why one record, or one batch of records that was not read, becomes a dead letter. The class of an error that
// has no name of its own is that of its stage.
func failure(stage string, err error) *producer.Failure {
	for _, class := range classes {
		if errors.Is(err, class.err) {
			return &producer.Failure{Stage: stage, Class: class.name, Err: err}
		}
	}
	return &producer.Failure{Stage: stage, Class: stage, Err: err}
}

// fatal are the errors that no retry mends: the service must be configured
// anew, or stopped somewhere else.
var fatal = []error{
	kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.FencedInstanceID,
	kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.TransactionalIDAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism,
	kerr.InvalidTransactionTimeout, kerr.InvalidSessionTimeout,
	kerr.MessageTooLarge, // Records.Limits are no longer the topics': a restart reads them again
}

func isFatal(err error) bool {
	return slices.ContainsFunc(fatal, func(target error) bool { return errors.Is(err, target) })
}

// explain adds to a fatal error what to do about it.
func explain(err error) error {
	if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
		return &fenced{err}
	}
	return err
}

type fenced struct{ err error }

func (f *fenced) Error() string {
	return "another consumer runs under this instance name, or a transaction took longer than its timeout: give every instance its own name: " + f.err.Error()
}
func (f *fenced) Unwrap() error { return f.err }
