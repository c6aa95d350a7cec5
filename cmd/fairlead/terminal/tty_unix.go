//go:build unix

package terminal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// waiter waits for input without reading, so that nobody is left reading from the
// terminal when the program is done with it. wake ends the wait for good.
func waiter(in *os.File) (wait func() bool, wake func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}, {Fd: int32(r.Fd()), Events: unix.POLLIN}}
	wait = func() bool {
		for {
			_, err := unix.Poll(fds, -1)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || fds[1].Revents != 0 {
				_ = r.Close()
				return false
			}
			return true
		}
	}
	return wait, func() { _ = w.Close() }, nil
}
