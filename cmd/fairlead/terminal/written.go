package terminal

import (
	"fmt"
	"io"
)

// written is an output that remembers its first fault: a script must not take for whole
// what it has a part of.
type written struct {
	io.Writer
	err error
}

func (w *written) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("the output could not be written: %w", err)
	}
	return n, err
}
