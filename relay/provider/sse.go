package provider

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEventBytes bounds one event. The last event of a Responses stream repeats
// the whole answer several times over.
const maxEventBytes = 16 << 20

var errEventTooLong = errors.New("event is over-long")

// event is one dispatched event, or one line that no event stream has.
type event struct {
	name string
	data []byte // valid until the next call of next
	// bare marks a line that starts like JSON and belongs to no field: some
	// servers put an error body into the stream as it is.
	bare bool
}

// sseReader reads an event stream by the rules of WHATWG: lines end in LF, CR
// or CR LF, one space after the colon is dropped, an event that the stream
// breaks off in is dropped. A line that ends in CR is taken at once, without
// waiting for what follows. Beyond the rules it reports bare JSON, which they
// would have it ignore in silence.
type sseReader struct {
	r    *bufio.Reader
	max  int
	line []byte
	data []byte

	name    string
	hasData bool
	taken   bool // the event was returned: name and data start anew
	begun   bool // the first line was read: no byte order mark any more
	afterCR bool // an LF that comes next belongs to the line before
}

func newSSEReader(r io.Reader, limit int) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 16<<10), max: limit}
}

// next returns the next event, io.EOF at the end, or the reader's error.
func (s *sseReader) next() (event, error) {
	if s.taken {
		s.name, s.data, s.hasData, s.taken = "", s.data[:0], false, false
	}
	for {
		err := s.readLine()
		if err != nil && (len(s.line) == 0 || !isBare(s.line)) {
			return event{}, err
		}
		if len(s.line) == 0 {
			if s.hasData {
				s.taken = true
				return event{name: s.name, data: s.data}, nil
			}
			s.name = ""
			continue
		}
		if isBare(s.line) {
			return event{data: s.line, bare: true}, nil
		}
		s.field(s.line)
	}
}

func isBare(line []byte) bool {
	t := bytes.TrimLeft(line, " \t")
	return len(t) > 0 && (t[0] == '{' || t[0] == '[' || t[0] == '}' || t[0] == ']' || t[0] == '"')
}

// field takes one line that is neither blank nor bare JSON.
func (s *sseReader) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if s.hasData {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, value...)
		s.hasData = true
	case "event":
		s.name = string(value)
	}
}

// readLine reads one line into s.line. At the end of the stream it returns the
// error with what there was of an unfinished line.
func (s *sseReader) readLine() error {
	s.line = s.line[:0]
	for {
		if _, err := s.r.Peek(1); err != nil {
			return err
		}
		buf, _ := s.r.Peek(s.r.Buffered())
		if s.afterCR {
			s.afterCR = false
			if buf[0] == '\n' {
				_, _ = s.r.Discard(1)
				continue
			}
		}
		i := bytes.IndexAny(buf, "\r\n")
		end := i >= 0
		if !end {
			i = len(buf)
		}
		if len(s.line)+i+len(s.data) > s.max {
			return errEventTooLong
		}
		s.line = append(s.line, buf[:i]...)
		if !end {
			_, _ = s.r.Discard(i)
			continue
		}
		s.afterCR = buf[i] == '\r'
		_, _ = s.r.Discard(i + 1)
		s.dropMark()
		return nil
	}
}

// dropMark takes the byte order mark off the first line.
func (s *sseReader) dropMark() {
	if !s.begun {
		s.begun = true
		s.line = bytes.TrimPrefix(s.line, []byte("\xef\xbb\xbf"))
	}
}
