package client

// stream is how much of a turn's answer is here. An offset always stands for the
// same byte, so what was shown once is never shown again.
type stream struct {
	known int64 // the byte after the last one known, as the protocol counts
	shown int64 // the byte after the last one told
}

// take takes the text of the bytes from offset to next. It gives what is new of
// it; gap says that bytes before it are missing and nothing was taken.
func (s *stream) take(offset, next int64, text string) (fresh string, gap bool) {
	if next <= s.known {
		return "", false
	}
	if offset > s.known {
		return "", true
	}
	s.known = next
	return s.show(offset, next, text), false
}

// settle takes an output event: its bytes are known, wherever the stream was.
func (s *stream) settle(from, to int64, text string) string {
	s.known = max(s.known, to)
	return s.show(from, to, text)
}

func (s *stream) show(from, to int64, text string) string {
	if to <= s.shown {
		return ""
	}
	skip := min(max(s.shown-from, 0), int64(len(text)))
	s.shown = to
	return text[skip:]
}
