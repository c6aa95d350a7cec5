// Command fairlead serves the gateway and its embedded relay host, and manages
// them from a shell. This package only joins the parts: main hands everything to
// run, run parses the arguments and calls one function a command; settings come
// from one file, the environment and flags (config.go), and the functions that
// open stores and listeners stand in files named after their command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go obey(signals, cancel)
	code := run(ctx, os.Args[1:], stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()})
	cancel()
	os.Exit(code)
}

// obey lets the first signal end the program in good order, and the second at once,
// however soon it follows. The exit code is the one that shells give to a signal.
func obey(signals <-chan os.Signal, end context.CancelFunc) {
	<-signals
	end()
	if s, ok := (<-signals).(syscall.Signal); ok {
		os.Exit(128 + int(s))
	}
	os.Exit(exitFailed)
}
