// Package wire is the language that a gateway and a relay host share: commands,
// envelopes, link messages, ids, limits, error codes, the shape rules of every
// field, the canonical JSON form and the fingerprints made from it.
//
// It is the leaf of the module: it imports no other Fairlead package, holds no
// state but one warmed validator, and starts no goroutine. Every name, hash
// domain and limit in it is part of the wire format.
package wire
