// Package httpd is the gateway's HTTP server: one table of routes (routes.go),
// the middleware around all of them, the pages, and the gate that tells who a
// request comes from.
//
// Rules that hold for every request:
//   - Every URL, cookie path, redirect and allowed origin follows from the one
//     public URL. No header of a client changes any of them (F14, F17); the
//     client's address is taken from X-Forwarded-For only where the peer is a
//     listed proxy.
//   - A route says in the table who may use it, and is refused before its handler
//     runs (SQ12).
//   - What changes something, or opens a socket, with a cookie behind it, comes
//     from an allowed Origin (F18).
//   - Secrets stand neither in the log (paths without queries) nor in a page. The
//     one exception is the setup form, which carries the token of the link that
//     opened it.
//   - The HTTP JSON API (api*.go) is a second table, of operations: each becomes a
//     route, and a line of the description at /api/v1/openapi.json. It asks the
//     services that sockets ask, and has no rules of its own.
//   - An error has one shape, {"error":{…}}, and a page of its own where a person
//     is looking.
//
// The server starts no goroutine but that of http.Server, and Serve waits for it.
// Sockets are hijacked: their owner closes them before Serve is told to end.
package httpd
