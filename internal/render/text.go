package render

import (
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// style holds the parameters of an ANSI SGR sequence; empty is plain.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// span is text of one style.
type span struct {
	style style
	text  string
}

func (s span) paint(color bool) string {
	if !color || s.style == plain || s.text == "" {
		return s.text
	}
	return "\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m"
}

// clean makes text of unknown origin safe and predictable to print: control
// characters, among them the start of every ANSI escape, become U+FFFD; white
// space of any kind becomes one blank; invisible format characters go, among
// them those that turn the direction of writing, but not the two joiners that
// scripts and emoji need. Bytes that are not UTF-8 become U+FFFD.
func clean(s string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r):
			return unicode.ReplacementChar
		case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d':
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(safe), " ")
}

// wrap breaks cleaned text into lines of at most first columns for the first
// and rest columns for the others, at the places Unicode allows (UAX #14). A
// word wider than a line is cut between characters. There is always one line,
// and a line holds at least one character.
func wrap(text string, first, rest int) []string {
	var lines []string
	var line strings.Builder
	used, limit := 0, first
	flush := func() {
		lines = append(lines, strings.TrimRight(line.String(), " "))
		line.Reset()
		used, limit = 0, rest
	}
	state := -1
	for text != "" {
		var segment string
		segment, text, _, state = uniseg.FirstLineSegmentInString(text, state)
		if used > 0 && used+uniseg.StringWidth(strings.TrimRight(segment, " ")) > limit {
			flush()
		}
		for graphemes := uniseg.NewGraphemes(segment); graphemes.Next(); {
			if used > 0 && graphemes.Str() != " " && used+graphemes.Width() > limit {
				flush()
			}
			line.WriteString(graphemes.Str())
			used += graphemes.Width()
		}
	}
	if line.Len() > 0 || len(lines) == 0 {
		flush()
	}
	return lines
}
