package provider

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// maxOutputBytes bounds answer and reasoning of one response together.
	maxOutputBytes = 8 << 20
	// tailTimeout bounds the wait for what may follow the finish of a chat
	// completion (usage, [DONE]); some servers send neither and stay open.
	tailTimeout = 5 * time.Second
	maxNameLen  = 256
)

// stream reads one answer. It belongs to the goroutine that called Stream.
type stream struct {
	events *sseReader
	watch  *watch
	idle   time.Duration
	out    *output
	dec    decoder
	bare   []byte // JSON outside of any event, as far as it came
}

// read hands events to the decoder until it is done or the stream ends.
func (s *stream) read(ctx context.Context) error {
	for {
		s.pace()
		ev, err := s.events.next()
		if err != nil {
			return s.end(err)
		}
		if ctx.Err() != nil { // what is buffered is not wanted any more
			return s.end(ctx.Err())
		}
		if ev.bare {
			if err := s.takeBare(ev.data); err != nil {
				return err
			}
			continue
		}
		done, err := s.take(ev)
		if err != nil {
			return err
		}
		if done {
			return s.out.flush()
		}
	}
}

// pace sets how long the next silence may last.
func (s *stream) pace() {
	switch {
	case s.dec.ended():
		s.watch.limit = min(s.idle, tailTimeout)
	case s.out.size > 0:
		s.watch.limit = s.idle
	}
}

// take hands over one event, unless it is of the kind that only keeps a
// connection open.
func (s *stream) take(ev event) (done bool, err error) {
	data := bytes.TrimSpace(ev.data)
	if ev.name == "error" {
		raw, ok := errorBody(data)
		if !ok {
			raw = data
		}
		return false, reported(raw)
	}
	if len(data) == 0 || data[0] == ':' || keepAlive(ev.name) {
		return false, nil
	}
	if string(data) == doneMark {
		return s.dec.event(data)
	}
	if !json.Valid(data) {
		return false, fail(wire.CodeModelStreamInvalid, "event is damaged JSON")
	}
	if data[0] != '{' && data[0] != '[' {
		return false, nil
	}
	if bytes.Contains(data, []byte(`"error"`)) {
		if raw, ok := errorBody(data); ok {
			return false, reported(raw)
		}
	}
	if data[0] == '[' {
		return false, nil
	}
	return s.dec.event(data)
}

// doneMark ends a stream of chat completions.
const doneMark = "[DONE]"

func keepAlive(name string) bool {
	switch strings.ToLower(name) {
	case "ping", "keepalive", "keep-alive", "heartbeat":
		return true
	}
	return false
}

// reported is the Failure that an error object within a stream stands for.
func reported(raw json.RawMessage) error {
	return fail(codeOfError(raw, wire.CodeModelFailed), "provider reported an error within the stream")
}

// takeBare gathers JSON that stands outside of any event until it is whole:
// an error body that somebody put into the stream as it was (F32).
func (s *stream) takeBare(line []byte) error {
	if len(s.bare)+len(line) > maxErrorBodyBytes {
		return fail(wire.CodeModelStreamInvalid, "answer is not an event stream")
	}
	s.bare = append(append(s.bare, line...), '\n')
	if !json.Valid(s.bare) {
		return nil
	}
	if raw, ok := errorBody(s.bare); ok {
		return reported(raw)
	}
	if raw, ok := detailBody(s.bare); ok {
		return reported(raw)
	}
	return fail(wire.CodeModelStreamInvalid, "answer is JSON, not an event stream")
}

// end decides what the end of the bytes means.
func (s *stream) end(err error) error {
	switch {
	case errors.Is(err, errEventTooLong):
		return fail(wire.CodeModelStreamInvalid, "%w", err)
	case damaged(err):
		return fail(wire.CodeModelStreamInvalid, "compressed data is damaged")
	case s.dec.ended():
		return s.out.flush()
	case errors.Is(err, io.EOF) && len(s.bare) > 0:
		return fail(wire.CodeModelStreamInvalid, "answer is not an event stream")
	}
	return fail(wire.CodeModelStreamCut, "stream ended before its terminal marker")
}

func damaged(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum)
}

// output is what became of a stream so far. Text and reasoning are joined
// apart, as a provider may interleave them.
type output struct {
	emit      func(Delta) error
	key       Key
	result    Result
	size      int // bytes emitted, of both kinds
	textSize  int
	text      joiner
	reasoning joiner
}

// emitError carries an error of emit past everything that classifies errors.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }

func (o *output) addText(t text) error {
	before := o.size
	err := o.add(DeltaText, o.text.push(t))
	o.textSize += o.size - before
	return err
}

func (o *output) addReasoning(t text) error {
	return o.add(DeltaReasoning, o.reasoning.push(t))
}

// flush lets out what was held back of a rune that nothing completed.
func (o *output) flush() error {
	if err := o.add(DeltaReasoning, o.reasoning.flush()); err != nil {
		return err
	}
	return o.add(DeltaText, o.text.flush())
}

func (o *output) add(kind DeltaKind, s string) error {
	if s == "" {
		return nil
	}
	if o.size+len(s) > maxOutputBytes {
		return fail(wire.CodeModelStreamInvalid, "answer is over-long")
	}
	o.size += len(s)
	if err := o.emit(Delta{Kind: kind, Text: s}); err != nil {
		return &emitError{err}
	}
	return nil
}

// identify keeps the first names that a stream gives for its response and
// model, as far as they look like names.
func (o *output) identify(id, model str) {
	if o.result.ResponseID == "" && o.isName(string(id)) {
		o.result.ResponseID = string(id)
	}
	if o.result.Model == "" && o.isName(string(model)) {
		o.result.Model = string(model)
	}
}

func (o *output) isName(s string) bool {
	if len(s) > maxNameLen || (!o.key.IsZero() && strings.Contains(s, o.key.secret())) {
		return false
	}
	for _, r := range s {
		if r <= ' ' || r >= utf8.RuneSelf {
			return false
		}
	}
	return s != ""
}

// watch ends a request whose provider is silent. Its timer runs only while
// something is waited for, so that a slow receiver is not taken for a silent
// provider; any byte restarts it.
type watch struct {
	limit time.Duration
	timer *time.Timer
}

func newWatch(limit time.Duration, expire func()) *watch {
	t := time.AfterFunc(limit, expire)
	t.Stop()
	return &watch{limit: limit, timer: t}
}

func (w *watch) start() { w.timer.Reset(w.limit) }
func (w *watch) pause() { w.timer.Stop() }
func (w *watch) stop()  { w.timer.Stop() }

func (w *watch) reader(r io.Reader) io.Reader { return watchedReader{w, r} }

type watchedReader struct {
	w *watch
	r io.Reader
}

func (r watchedReader) Read(p []byte) (int, error) {
	r.w.start()
	defer r.w.pause()
	return r.r.Read(p)
}
