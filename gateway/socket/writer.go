package socket

import (
	"context"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// ending says how a session closes.
type ending struct {
	code   websocket.StatusCode
	reason string
	// drop leaves out what is still queued: the peer does not read it.
	drop bool
}

// The close codes of protocol.md §1.
var (
	closeGoing      = ending{code: websocket.StatusGoingAway, reason: "shutting down"}
	closeCredential = ending{code: 4401, reason: "session or token ended", drop: true}
	closeTooSlow    = ending{code: 4408, reason: "reading too slowly; resume", drop: true}
	closeTooLarge   = ending{code: 4413, reason: "frame too large"}
	closeTooMany    = ending{code: 4429, reason: "too many commands"}
)

// slowGrace is how long the write to a slow reader may still take, so that the
// close code can follow.
const slowGrace = time.Second

// queue is what waits for the writer. A nil frame is a ping.
type queue struct {
	mu     sync.Mutex
	frames [][]byte
	spare  [][]byte // what frames becomes when the writer takes them
	bytes  int      // of frames, and of those that are being written
	limit  int
	// granted is what may wait beyond limit until the queue is empty again.
	granted int
	// writing is set while there is a writer.
	writing bool
	// dead: nothing is written any more; ends: nothing is queued any more, and
	// the writer closes as it says.
	dead bool
	ends *ending
}

// put queues a frame. start: the caller must start a writer. full: the frame
// found no room and the session must be closed as too slow.
func (q *queue) put(frame []byte) (start, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead || q.ends != nil {
		return false, false
	}
	if q.bytes+len(frame) > q.limit+q.granted {
		return false, true
	}
	q.frames = append(q.frames, frame)
	q.bytes += len(frame)
	return q.begin(), false
}

// maxGranted is how much may be granted to one reader.
const maxGranted = 32 << 20

// grant lets that much more wait: what a client has asked for is no sign that it
// reads slowly, however long it is.
func (q *queue) grant(bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.granted = min(q.granted+bytes, maxGranted)
}

// allow changes how much may wait.
func (q *queue) allow(bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = bytes
}

// ping queues a ping; start as in put.
func (q *queue) ping() (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead || q.ends != nil {
		return false
	}
	q.frames = append(q.frames, nil)
	return q.begin()
}

// finish lets the writer close the session. first is false if that was asked for
// before.
func (q *queue) finish(e ending) (start, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead || q.ends != nil {
		return false, false
	}
	q.ends = &e
	if e.drop {
		q.frames = nil
	}
	return q.begin(), true
}

// kill drops everything.
func (q *queue) kill() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dead, q.frames = true, nil
}

// begin needs mu; it tells whether a writer must be started.
func (q *queue) begin() bool {
	if q.writing {
		return false
	}
	q.writing = true
	return true
}

// ended tells whether nothing more reaches the peer but the close.
func (q *queue) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dead || q.ends != nil
}

// maxSpare is how many frames a slice may have held to be used again.
const maxSpare = 64

// take gives all that waits, and takes back what it gave before. Without frames
// there is nothing left to do, and the writer must end; with ends it must close
// the session first.
func (q *queue) take(written [][]byte) (frames [][]byte, ends *ending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, frame := range written {
		q.bytes -= len(frame)
	}
	if cap(written) <= maxSpare {
		clear(written)
		q.spare = written[:0]
	}
	if !q.dead && len(q.frames) > 0 {
		frames, q.frames, q.spare = q.frames, q.spare, nil
		return frames, nil
	}
	if !q.dead && q.ends != nil {
		return nil, q.ends
	}
	q.writing, q.granted = false, 0
	return nil, nil
}

// write is the writer: it drains the queue and ends.
func (s *session) write() {
	var written [][]byte
	for {
		frames, ends := s.out.take(written)
		if ends != nil {
			s.shut(*ends)
			return
		}
		if frames == nil {
			return
		}
		if err := s.writeAll(frames); err != nil {
			s.cut()
			return
		}
		written = frames
	}
}

// writeAll writes frames with as few system calls as they need.
func (s *session) writeAll(frames [][]byte) (err error) {
	s.conn.cork()
	defer func() {
		if flushed := s.conn.uncork(); err == nil {
			err = flushed
		}
	}()
	for _, frame := range frames {
		if frame == nil {
			err = s.writePing()
		} else {
			err = s.ws.Write(context.Background(), websocket.MessageText, frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writePing writes an empty ping frame by itself: the library's Ping would wait
// for the answer in a goroutine of its own, while here any byte that comes is a
// sign of life. The library writes every frame whole under its own lock, and its
// data frames in this goroutine, so a ping never falls into one.
func (s *session) writePing() error {
	_, err := s.conn.Write([]byte{0x89, 0x00})
	return err
}

// close ends the session with a code. Only the first call counts.
func (s *session) close(e ending) {
	start, first := s.out.finish(e)
	if !first {
		return
	}
	if e.drop {
		s.conn.hurry(slowGrace)
	}
	if start {
		s.srv.wg.Go(s.write)
	}
}

// shut writes the close frame and waits a moment for the peer's.
func (s *session) shut(e ending) {
	limit := s.srv.limits.CloseTimeout
	s.conn.hurry(limit)
	_ = s.conn.SetReadDeadline(time.Now().Add(limit)) // fails on a closed connection alone
	_ = s.ws.Close(e.code, e.reason)                  // the peer may be gone
	s.out.kill()
}
