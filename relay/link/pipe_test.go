package link_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestPipe_KeepsOrderBothWays(t *testing.T) {
	t.Parallel()
	a, b := link.Pipe()
	defer func() { _ = a.Close(link.Ending{}) }()
	var wg sync.WaitGroup
	const n = 1000
	pump := func(c link.Conn) {
		for i := range n {
			if err := c.Send(t.Context(), wire.Heartbeat{ClockMs: int64(i)}); err != nil {
				t.Error(err)
			}
		}
	}
	drain := func(c link.Conn) {
		for i := range n {
			m, err := c.Receive(t.Context())
			if err != nil || m.(wire.Heartbeat).ClockMs != int64(i) {
				t.Errorf("message %d is %v, %v", i, m, err)
				return
			}
		}
	}
	for _, c := range []link.Conn{a, b} {
		wg.Go(func() { pump(c) })
		wg.Go(func() { drain(c) })
	}
	wg.Wait()
}

func TestPipe_HoldsASenderUpWhenNobodyReceives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := link.Pipe()
		defer func() { _ = a.Close(link.Ending{}) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sent := 0
		for a.Send(ctx, wire.Heartbeat{}) == nil {
			if sent++; sent > 10_000 {
				t.Fatal("the pipe is not bounded")
			}
		}
		if ctx.Err() == nil || sent == 0 {
			t.Fatalf("%d messages, then an error without a timeout", sent)
		}
		for range sent {
			if _, err := b.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Send(t.Context(), wire.Heartbeat{}); err != nil {
			t.Fatalf("no room after the receiver caught up: %v", err)
		}
	})
}

func TestPipe_CloseEndsBothEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, closeFirst := range []bool{true, false} {
			a, b := link.Pipe()
			if err := a.Send(t.Context(), wire.Offline{Reason: "last word"}); err != nil {
				t.Fatal(err)
			}
			blocked := make(chan error, 1)
			go func() {
				_, err := a.Receive(t.Context())
				blocked <- err
			}()
			synctest.Wait()
			if closeFirst {
				_ = a.Close(link.Ending{})
				_ = a.Close(link.Ending{})
				if m, err := b.Receive(t.Context()); err != nil || m != (wire.Offline{Reason: "last word"}) {
					t.Errorf("what was sent before the close: %v, %v", m, err)
				}
			} else {
				_ = b.Close(link.Ending{})
			}
			if err := <-blocked; !errors.Is(err, link.ErrClosed) {
				t.Errorf("a waiting Receive gives %v", err)
			}
			for _, c := range []link.Conn{a, b} {
				if err := c.Send(t.Context(), wire.Heartbeat{}); !errors.Is(err, link.ErrClosed) {
					t.Errorf("Send gives %v", err)
				}
				if _, err := c.Receive(t.Context()); !errors.Is(err, link.ErrClosed) {
					t.Errorf("Receive gives %v", err)
				}
			}
		}
	})
}
