package broker

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kfake"
)

// logger hands kfake's lines to slog. kfake calls a line a request "info".
type logger struct{ to *slog.Logger }

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	at := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		at = slog.LevelError
	case kfake.LogLevelWarn:
		at = slog.LevelWarn
	}
	if l.to.Enabled(context.Background(), at) {
		l.to.Log(context.Background(), at, "broker: "+fmt.Sprintf(format, args...))
	}
}
