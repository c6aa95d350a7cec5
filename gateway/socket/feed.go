package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/fairlead/fairlead/gateway"
)

// feedSub is a session's subscription of its account's feed. A session that
// opened a thread has one too, to learn of its deletion; it is sent no more than
// that until the client follows.
type feedSub struct {
	s      *session
	cancel func() // set before it is shared

	// mu guards the rest, as in threadSub.
	mu        sync.Mutex
	following bool
	holding   bool
	held      []gateway.Push
	heldBytes int
	seq       int64
}

// followThreads is threads.follow.
func (s *session) followThreads(ctx context.Context, f *followFrame) (any, error) {
	s.watchAccount()
	s.mu.Lock()
	feed := s.feed
	s.mu.Unlock()
	feed.hold()
	reply, err := s.srv.cfg.Chat.Follow(ctx, s.actor, f.FollowRequest)
	if err != nil {
		feed.resume()
		return nil, err
	}
	reply.Events = orEmpty(reply.Events)
	if reply.More {
		feed.stop()
		return reply, nil
	}
	feed.begin(s.reply(f.ID, reply), reply.LatestSeq)
	return sent{}, nil
}

// follows tells whether the client is sent the feed.
func (s *session) follows() bool {
	s.mu.Lock()
	feed := s.feed
	s.mu.Unlock()
	if feed == nil {
		return false
	}
	feed.mu.Lock()
	defer feed.mu.Unlock()
	return feed.following
}

// watchAccount makes sure that the session hears of its account's threads. Only
// the worker calls it.
func (s *session) watchAccount() {
	s.mu.Lock()
	known := s.feed != nil
	s.mu.Unlock()
	if known {
		return
	}
	feed := &feedSub{s: s}
	feed.cancel = s.srv.cfg.Bus.Subscribe(gateway.AccountTopic(s.actor.AccountID), feed.take)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed = feed
}

// take is the handler on the bus.
func (f *feedSub) take(p gateway.Push) {
	wanted := f.s.endThreads(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.holding:
		f.keep(p)
	case f.following:
		f.send(p)
	case wanted:
		f.s.push(p.Raw)
	}
}

// keep needs mu.
func (f *feedSub) keep(p gateway.Push) {
	f.held = append(f.held, p)
	f.heldBytes += len(p.Raw)
	if f.heldBytes > f.s.srv.limits.QueueBytes {
		f.held = nil
		f.s.srv.tooSlow.Add(1)
		f.s.close(closeTooSlow)
	}
}

// send needs mu. Entries that are not stored have no sequence number and are
// always new.
func (f *feedSub) send(p gateway.Push) {
	if p.LastSeq != 0 {
		if p.LastSeq <= f.seq {
			return
		}
		f.seq = p.LastSeq
	}
	f.s.push(p.Raw)
}

func (f *feedSub) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding = true
}

// begin sends the reply of a follow and what lies beyond it.
func (f *feedSub) begin(frame []byte, seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.following, f.seq = true, seq
	f.s.push(frame)
	f.release()
}

// resume goes on as before the hold.
func (f *feedSub) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
}

// stop ends the following: the client asks again from further on.
func (f *feedSub) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.following = false
	f.release()
}

// release needs mu.
func (f *feedSub) release() {
	held := f.held
	f.holding, f.held, f.heldBytes = false, nil, 0
	if !f.following {
		return
	}
	for _, p := range held {
		f.send(p)
	}
}

// endThreads ends the subscriptions of the threads that a push tells to be
// deleted. It tells whether there was one that the client must hear of now.
func (s *session) endThreads(p gateway.Push) (ended bool) {
	for _, threadID := range deletedIn(p) {
		s.mu.Lock()
		sub := s.threads[threadID]
		s.mu.Unlock()
		if sub == nil || !sub.deleted(p) {
			continue
		}
		ended = true
		// The bus is in the middle of a publication: the worker unsubscribes.
		s.do(func(context.Context) { s.dropThread(sub) })
	}
	return ended
}

// deletedIn lists the threads that a push of the feed tells to be deleted. The
// key and the value stand side by side as they are encoded; within a string their
// quotes would be escaped, so a title cannot look like them.
func deletedIn(p gateway.Push) []string {
	if !bytes.Contains(p.Raw, []byte(`"kind":"deleted"`)) {
		return nil
	}
	var body struct {
		Events []struct {
			Kind     gateway.FeedKind `json:"kind"`
			ThreadID string           `json:"threadId"`
		} `json:"events"`
	}
	if json.Unmarshal(p.Raw, &body) != nil {
		return nil
	}
	var deleted []string
	for _, e := range body.Events {
		if e.Kind == gateway.FeedDeleted {
			deleted = append(deleted, e.ThreadID)
		}
	}
	return deleted
}
