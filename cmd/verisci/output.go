package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/verisci/verisci/internal/render"
	"github.com/verisci/verisci/schemas"
)

// printer writes verdicts for people, or as a JSON object a line for scripts.
type printer struct {
	out   io.Writer
	codec *schemas.Codec // not nil: JSON
	opts  render.Options
}

func newPrinter(out io.Writer, asJSON bool) (*printer, error) {
	p := &printer{out: out}
	if asJSON {
		codec, err := schemas.NewCodec(schemas.Options{})
		p.codec = codec
		return p, err
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.opts.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			p.opts.Width = min(width, 100) // longer lines are hard to read
		}
	}
	return p, nil
}

func (p *printer) print(v schemas.Verdict) error {
	if p.codec == nil {
		if err := render.Verdict(p.out, v, p.opts); err != nil {
			return err
		}
		_, err := io.WriteString(p.out, "\n")
		return err
	}
	line, err := p.codec.EncodeVerdict(v, schemas.JSON, 0)
	if err != nil {
		return err
	}
	_, err = p.out.Write(append(line, '\n'))
	return err
}
