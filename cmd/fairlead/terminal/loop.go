package terminal

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
)

// errLeave ends a loop in good order.
var errLeave = errors.New("leave")

// loop joins a line and a session. All that happens, happens on the goroutine
// that calls run.
type loop struct {
	session *client.Session
	line    *client.Line
	// down is told when the connection ended and when the next try is.
	down func(err error, again time.Duration)
	// keys are what was pressed; nil for none.
	keys <-chan []byte
	// press is told what was pressed, nil for the end of the input.
	press func(p []byte) error
	// stop is told once that the process is to end. A loop ends a while later.
	stop func() error
	// settled is asked after everything that happened.
	settled func() error
}

// stopWithin is how long a loop goes on after stop, to see the end of a turn.
const stopWithin = 5 * time.Second

// run works until one of the functions gives an error. errLeave becomes nil.
func (l *loop) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- l.line.Run(work)
	}()
	defer func() {
		cancel()
		<-done
	}()
	err := l.loop(ctx, ended)
	if errors.Is(err, errLeave) {
		return nil
	}
	return err
}

func (l *loop) loop(ctx context.Context, ended <-chan error) error {
	stop := ctx.Done()
	var late <-chan time.Time
	wake := time.NewTimer(time.Hour)
	defer wake.Stop()
	for {
		l.flush(wake)
		var err error
		select {
		case in := <-l.line.In():
			l.receive(in)
		case p, ok := <-l.keys:
			if !ok {
				l.keys, p = nil, nil
			}
			err = l.press(p)
		case now := <-wake.C:
			l.session.Wake(now)
		case <-stop:
			stop = nil
			timer := time.NewTimer(stopWithin)
			defer timer.Stop()
			late = timer.C
			err = l.stop()
		case <-late:
			err = context.Cause(ctx)
		case err = <-ended:
			if err == nil {
				err = errLeave
			}
		}
		if err == nil && l.settled != nil {
			err = l.settled()
		}
		if err != nil {
			return err
		}
	}
}

func (l *loop) receive(in client.Incoming) {
	switch {
	case in.Up:
		l.session.Connected()
	case in.Frame != nil:
		l.session.Receive(in.Frame, time.Now())
	default:
		l.session.Disconnected()
		l.down(in.Down, in.Again)
	}
}

// flush writes what the session has to say and sets the alarm for its pauses.
func (l *loop) flush(wake *time.Timer) {
	for _, frame := range l.session.Take() {
		l.line.Write(frame)
	}
	next := time.Hour
	if at := l.session.WakeAt(); !at.IsZero() {
		next = max(time.Until(at), 0)
	}
	wake.Reset(next)
}
