package socket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// maxRefusals is how many refusals in a row, beyond one a second, a client may
	// collect before it is cut (4429).
	maxRefusals = 100
	// readFactor is how far beyond the frame limit a frame is still read, so that
	// it can be answered.
	readFactor = 4
	// keptBytes is the largest buffer that goes back for the next frame.
	keptBytes = 64 << 10
)

var errTooLarge = errors.New("socket: frame far beyond the limit")

// read is the reader, and the end of the session.
func (s *session) read() {
	s.readFrames()
	s.out.kill()
	_ = s.ws.CloseNow()
	s.line.close()
	s.release()
	s.srv.remove(s)
}

func (s *session) readFrames() {
	for {
		kind, r, err := s.ws.Reader(context.Background())
		if err != nil {
			return
		}
		raw, size, err := s.readFrame(r)
		switch {
		case errors.Is(err, errTooLarge):
			s.close(closeTooLarge)
			s.drain(r)
			return
		case err != nil:
			return
		case !s.mayGoOn():
			s.refuseFrame(raw)
		case size > s.frameBytes:
			s.push(frameTooLarge(s.frameBytes))
		default:
			s.frame(kind, raw)
		}
	}
}

// readFrame reads one message: whole up to the limit, its size alone beyond.
func (s *session) readFrame(r io.Reader) (raw []byte, size int64, err error) {
	buf := s.srv.readBuffer()
	defer s.srv.keepBuffer(buf)
	size, err = buf.ReadFrom(io.LimitReader(r, s.frameBytes+1))
	if err != nil {
		return nil, 0, err
	}
	if size <= s.frameBytes {
		return bytes.Clone(buf.Bytes()), size, nil
	}
	more, err := io.Copy(io.Discard, io.LimitReader(r, (readFactor-1)*s.frameBytes))
	if err != nil {
		return nil, 0, err
	}
	if size+more > readFactor*s.frameBytes {
		return nil, 0, errTooLarge
	}
	return nil, size + more, nil
}

// drain reads on, without keeping anything, until the close handshake ended: a
// peer that is still writing would not see the code else.
func (s *session) drain(r io.Reader) {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return
	}
	for {
		if _, _, err := s.ws.Reader(context.Background()); err != nil {
			return
		}
	}
}

func (s *Server) readBuffer() *bytes.Buffer {
	buf, ok := s.reads.Get().(*bytes.Buffer)
	if !ok {
		return new(bytes.Buffer)
	}
	return buf
}

func (s *Server) keepBuffer(buf *bytes.Buffer) {
	if buf.Cap() > keptBytes {
		return
	}
	buf.Reset()
	s.reads.Put(buf)
}

// mayGoOn takes one frame from the client's allowance.
func (s *session) mayGoOn() bool { return s.allowed.Allow() }

// refuseFrame answers a frame beyond the allowance, and cuts a client that goes
// on all the same.
func (s *session) refuseFrame(raw []byte) {
	after := max(time.Duration(float64(time.Second)/float64(s.allowed.Limit())), 100*time.Millisecond)
	s.tooMany(after, func(e *wire.Error) {
		if s.control != nil {
			s.control.refuseFrame(raw, e)
			return
		}
		s.push(encodeError(idOf(raw), e))
	})
}

// tooMany answers with rate_limited, or with the end.
func (s *session) tooMany(after time.Duration, answer func(*wire.Error)) {
	if !s.refused.Allow() {
		s.close(closeTooMany)
		return
	}
	e := wire.NewError(wire.CodeRateLimited, "Too many commands at once. Send fewer.")
	e.RetryAfter = after
	answer(e)
}

// frame takes one frame within all limits. A session that is being closed takes
// none.
func (s *session) frame(kind websocket.MessageType, raw []byte) {
	if s.out.ended() {
		return
	}
	if kind != websocket.MessageText {
		s.push(encodeError("", wire.NewError(wire.CodeBadRequest, "Commands are text frames.")))
		return
	}
	if s.control != nil {
		s.control.frame(raw)
		return
	}
	h, err := decodeHead(raw)
	if err != nil {
		s.push(encodeError("", err))
		return
	}
	run, known := s.srv.commands[h.Type]
	if !known {
		e := wire.NewError(wire.CodeBadRequest, "This command is not known.")
		e.Fields = []wire.Field{{Path: "type", Rule: "enum"}}
		s.push(encodeError(h.ID, e))
		return
	}
	switch {
	case s.isLeaving():
		s.push(encodeError(h.ID, shuttingDown(s.srv.limits.RetryAfter)))
	case s.line.length() >= s.srv.limits.InFlight:
		s.tooMany(100*time.Millisecond, func(e *wire.Error) { s.push(encodeError(h.ID, e)) })
	default:
		s.srv.commandsRun.Add(1)
		received := s.srv.now()
		s.do(func(ctx context.Context) {
			s.received = received
			s.execute(ctx, h.ID, run, raw)
		})
	}
}
