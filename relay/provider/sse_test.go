package provider

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll gives what the reader makes of a stream, without bare JSON.
func readAll(r io.Reader, limit int) (events []event, err error) {
	s := newSSEReader(r, limit)
	for {
		ev, err := s.next()
		if err != nil {
			return events, err
		}
		if !ev.bare {
			events = append(events, event{name: ev.name, data: bytes.Clone(ev.data)})
		}
	}
}

// reference reads a whole stream the way WHATWG words it, one rule a line.
func reference(in string) (events []event) {
	in = strings.TrimPrefix(in, "\xef\xbb\xbf")
	in = strings.ReplaceAll(in, "\r\n", "\n")
	in = strings.ReplaceAll(in, "\r", "\n")
	all := strings.Split(in, "\n")
	name, data := "", ""
	for _, line := range all[:len(all)-1] { // the last has no end
		if line == "" {
			if data != "" {
				events = append(events, event{name: name, data: []byte(strings.TrimSuffix(data, "\n"))})
			}
			name, data = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			data += value + "\n"
		}
	}
	return events
}

func FuzzF29_ReaderAgreesWithTheStandard(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "data:a\r\n\r\ndata: b\r\rdata: c", "\ufeffdata: a\n\n", ": x\ndata\n\nevent: e\ndata: 1\ndata:  2\n\n",
		"event: lost\n\ndata: a\n\n", "data: {\n{\"error\":1}\ndata: }\n\n", "\r\n\n\r", "id: 1\nretry: 2\nx\n:\n\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		want := reference(in)
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)),
		} {
			got, err := readAll(r, 1<<20)
			if !errors.Is(err, io.EOF) {
				t.Fatalf("%s: err = %v", name, err)
			}
			if len(got) != len(want) {
				t.Fatalf("%s: %d events of %q, want %d", name, len(got), in, len(want))
			}
			for i := range got {
				if got[i].name != want[i].name || !bytes.Equal(got[i].data, want[i].data) {
					t.Fatalf("%s: event %d of %q = %q, want %q", name, i, in, got[i].data, want[i].data)
				}
			}
		}
	})
}

func TestF29_OverLongEvents(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"one line":     "data: " + strings.Repeat("x", 200) + "\n\n",
		"many lines":   strings.Repeat("data: xxxxxxxxx\n", 20) + "\n",
		"no line end":  strings.Repeat("x", 200),
		"long comment": ":" + strings.Repeat("x", 200) + "\n\n",
	} {
		if _, err := readAll(strings.NewReader(in), 100); !errors.Is(err, errEventTooLong) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	if events, err := readAll(strings.NewReader(strings.Repeat("data: xxxxxxxxx\n\n", 50)), 100); len(events) != 50 || !errors.Is(err, io.EOF) {
		t.Errorf("short events: %d, %v", len(events), err)
	}
}

// TestF29_LineEndInCRIsNotWaitedFor: an event that ends in CR CR is there
// before another byte is.
func TestF29_LineEndInCRIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer func() { _ = r.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(w, "data: a\r\r")
	}()
	ev, err := newSSEReader(r, 100).next()
	if err != nil || string(ev.data) != "a" {
		t.Errorf("event %q, err %v", ev.data, err)
	}
	<-done
}
