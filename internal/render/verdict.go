package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/verisci/verisci/schemas"
)

const (
	defaultWidth = 80
	minWidth     = 40 // below this the indents would leave no room for words
)

// Options say how to print.
type Options struct {
	Color bool // ANSI colours; the caller honours NO_COLOR
	Width int  // columns; 0 stands for 80, and less than 40 for 40
}

// Verdict prints the claim, the verdict's label, confidence and counts, and for
// every abstract its title, label with probability, and rationale sentences with
// their scores, best first. A conflicting verdict shows its two sides one after
// the other. The only errors are the writer's.
func Verdict(w io.Writer, v schemas.Verdict, opt Options) error {
	if opt.Width == 0 {
		opt.Width = defaultWidth
	}
	p := printer{Options: opt}
	p.Width = max(p.Width, minWidth)

	p.block(nil, nil, span{bold, clean(v.Claim)})
	p.blank()
	p.summary(v)
	if v.Label == schemas.Conflicting {
		p.side("Supporting", v.Evidence, schemas.Support)
		p.side("Contradicting", v.Evidence, schemas.Contradict)
	} else {
		for i, e := range v.Evidence {
			p.evidence(i+1, e)
		}
	}
	if _, err := io.WriteString(w, p.out.String()); err != nil {
		return fmt.Errorf("render: write verdict: %w", err)
	}
	return nil
}

// appearance is how a label looks as a verdict's and as one abstract's.
type appearance struct{ sign, verdict, abstract string }

func look(l schemas.Label) (appearance, style) {
	switch l {
	case schemas.Support:
		return appearance{"✓", "SUPPORTED", "SUPPORTS"}, green
	case schemas.Contradict:
		return appearance{"✗", "CONTRADICTED", "CONTRADICTS"}, red
	case schemas.Conflicting:
		return appearance{"≠", "CONFLICTING EVIDENCE", "CONFLICTING"}, yellow
	case schemas.NotEnoughInfo:
		return appearance{"?", "NOT ENOUGH INFORMATION", "SAYS TOO LITTLE"}, dim
	}
	return appearance{"?", "UNKNOWN LABEL", "UNKNOWN LABEL"}, plain
}

type printer struct {
	Options
	out strings.Builder
}

func (p *printer) blank() { p.out.WriteByte('\n') }

// block prints body wrapped, after the spans first on its first line and after
// the spans rest on the others.
func (p *printer) block(first, rest []span, body span) {
	width := func(spans []span) (n int) {
		for _, s := range spans {
			n += uniseg.StringWidth(s.text)
		}
		return n
	}
	lead := first
	for _, line := range wrap(body.text, p.Width-width(first), p.Width-width(rest)) {
		for _, s := range lead {
			p.out.WriteString(s.paint(p.Color))
		}
		p.out.WriteString(span{body.style, line}.paint(p.Color))
		p.blank()
		lead = rest
	}
}

func (p *printer) summary(v schemas.Verdict) {
	words, color := look(v.Label)
	indent := []span{{plain, "  "}}
	p.block([]span{{color, words.sign + " " + words.verdict}}, indent,
		span{plain, fmt.Sprintf("  confidence %.2f", v.Confidence)})
	c := v.Counts
	counts := "nothing was retrieved"
	if c.Retrieved > 0 {
		counts = fmt.Sprintf("%s retrieved: %s, %s, %s",
			plural(c.Retrieved, "abstract", "abstracts"),
			plural(c.Support, "supports", "support"),
			plural(c.Contradict, "contradicts", "contradict"),
			plural(c.NotEnoughInfo, "says too little", "say too little"))
	}
	p.block(indent, indent, span{dim, counts})
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// side prints the abstracts of one label under a heading.
func (p *printer) side(heading string, evidence []schemas.Evidence, label schemas.Label) {
	_, color := look(label)
	p.blank()
	p.block(nil, nil, span{color, heading})
	n := 0
	for _, e := range evidence {
		if e.Label == label {
			n++
			p.evidence(n, e)
		}
	}
}

func (p *printer) evidence(number int, e schemas.Evidence) {
	words, color := look(e.Label)
	probability := e.Probabilities.Support
	if e.Label == schemas.Contradict {
		probability = e.Probabilities.Contradict
	}
	pad, bar := span{plain, "     "}, span{color, "│ "}

	p.blank()
	title := clean(e.Title)
	if title == "" {
		title = "(no title)"
	}
	p.block([]span{{plain, fmt.Sprintf("%3d  ", number)}}, []span{pad}, span{bold, title})
	origin := fmt.Sprintf("  %s, hit %d", clean(e.PaperID), e.RetrievalRank)
	if url := clean(e.URL); url != "" {
		origin += ", " + url
	}
	p.block([]span{pad, {color, fmt.Sprintf("%s %.2f", words.abstract, probability)}}, []span{pad}, span{dim, origin})
	for _, s := range e.Rationale {
		score := fmt.Sprintf("%.2f  ", s.Score)
		p.block([]span{pad, bar, {dim, score}}, []span{pad, bar, {plain, "      "}}, span{plain, clean(s.Text)})
	}
}
