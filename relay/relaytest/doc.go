// Package relaytest holds what tests of the relay host share: conformance suites
// that every relay.Store and relay.Runtime must pass, a runtime that does exactly
// what a test tells it, a store that fails where a test wants it to, and builders
// of commands. It is for tests alone.
package relaytest
