package link

import (
	"sync/atomic"
	"time"
)

// instant is a time that several goroutines share. It keeps the monotonic reading: a
// clock that is set makes no line silent, and hides no silence.
type instant struct{ at atomic.Pointer[time.Time] }

func (i *instant) set(t time.Time) { i.at.Store(&t) }

// get is the zero time before the first set.
func (i *instant) get() time.Time {
	if t := i.at.Load(); t != nil {
		return *t
	}
	return time.Time{}
}
