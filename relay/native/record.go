package native

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// After an append its turn's next one waits as many times as long as the quicker
	// of the last two took as there are other turns, paceFactor times and paceMost at
	// most. With a few turns that is over before their providers send again. With many
	// it lets deltas gather, here where each of them costs a write, an envelope and a
	// frame further on: work that would make all of them later still.
	paceFactor = 8
	paceMost   = 50 * time.Millisecond
)

// record is the recorder of a response: it stores what the engine emits until the
// stream has ended and nothing is left, or until a write is given up.
func (r *Runtime) record(t *turn, streamed <-chan struct{}) {
	var before time.Duration // what the append before took
	for ended := false; ; {
		deltas := t.stream.take()
		if len(deltas) == 0 {
			if ended {
				return
			}
			select {
			case <-t.stream.more:
			case <-streamed:
				ended = true
			}
			continue
		}
		began := time.Now()
		if err := r.append(t, deltas); err != nil {
			t.recordErr = err
			t.stream.fail(errUnrecorded)
			t.cancel(errUnrecorded)
			return
		}
		took := time.Since(began)
		others := time.Duration(min(r.engines.others(), paceFactor))
		pause(min(others*min(before, took), paceMost), streamed)
		before = took
	}
}

// pause waits for d, or for the end of the stream.
func pause(d time.Duration, streamed <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-streamed:
	}
}

// append stores pieces of the stream and tells the watchers.
func (r *Runtime) append(t *turn, pieces []provider.Delta) error {
	now := r.now()
	var deltas []Delta
	fresh := map[ItemKind]string{} // items that this append makes
	for _, p := range pieces {
		kind, item := ItemAnswer, &t.answer
		if p.Kind == provider.DeltaReasoning {
			kind, item = ItemReasoning, &t.reasoning
		}
		for _, text := range cut(p.Text) {
			d := Delta{ItemID: item.itemID, Kind: kind, Route: t.route}
			if d.ItemID == "" && fresh[kind] == "" {
				fresh[kind], d.New = wire.NewNativeID("item"), true
			}
			if d.ItemID == "" {
				d.ItemID = fresh[kind]
			}
			d.Event = Event{Name: wire.EventItemDelta, At: now, Payload: deltaPayload(kind, text)}
			deltas = append(deltas, d)
		}
	}
	err := r.persist(recordPatience, func(ctx context.Context) error {
		return r.store.AppendDeltas(ctx, t.record.ThreadID, t.record.ID, deltas)
	})
	if err != nil {
		return err
	}
	if id := fresh[ItemAnswer]; id != "" {
		t.answer.itemID = id
	}
	if id := fresh[ItemReasoning]; id != "" {
		t.reasoning.itemID = id
	}
	for _, p := range pieces {
		if p.Kind == provider.DeltaReasoning {
			t.reasoning.WriteString(p.Text)
		} else {
			t.answer.WriteString(p.Text)
		}
	}
	r.watchers.notify(t.record.ThreadID)
	return nil
}

const (
	// recordPatience is how long a failing append is tried again before its turn
	// fails; deltas gather meanwhile.
	recordPatience = 10 * time.Second
	retryFirst     = 20 * time.Millisecond
	retryMost      = time.Second
)

// persist writes until it succeeds. It gives up after patience (0: never), when
// Close waits no longer, and at once when the outcome is unknown: then nothing may
// be repeated.
func (r *Runtime) persist(patience time.Duration, write func(context.Context) error) error {
	var deadline <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		deadline = timer.C
	}
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := write(context.Background())
		if err == nil || errors.Is(err, ErrOver) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrStoreClosed) {
			return err
		}
		if errors.Is(err, ErrIndeterminate) {
			r.breakDown(err)
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			continue
		case <-deadline:
		case <-r.giveUp:
		case <-r.broken:
		}
		timer.Stop()
		return err
	}
}
