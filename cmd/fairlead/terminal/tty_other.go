//go:build !unix

package terminal

import "os"

// waiter cannot wait without reading here: the reader ends with the process.
func waiter(*os.File) (wait func() bool, wake func(), err error) {
	return func() bool { return true }, func() {}, nil
}
