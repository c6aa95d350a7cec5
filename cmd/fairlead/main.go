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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()})
	stop()
	os.Exit(code)
}
