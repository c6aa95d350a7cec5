package socket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway/socket"
)

// A page that chats all day without a reload must not lose its session as idle.
func TestUseOfACredentialIsToldOnceAnHour(t *testing.T) {
	t.Parallel()
	var clock, told atomic.Int64
	r := newRig(t, func(c *socket.Config) {
		c.Now = func() time.Time { return noon.Add(time.Duration(clock.Load())) }
		c.Touch = func(_ context.Context, credentialID string) error {
			if credentialID != "cred-ann" {
				t.Errorf("told of %q", credentialID)
			}
			told.Add(1)
			return nil
		}
	})
	c := r.dial("ann")
	for i, step := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {59 * time.Minute, 0}, {time.Hour, 1}, {119 * time.Minute, 1}, {2 * time.Hour, 2}} {
		clock.Store(int64(step.after))
		c.must("ping", nil)
		if got := told.Load(); got != step.want {
			t.Errorf("step %d: told %d times, want %d", i, got, step.want)
		}
	}
}
