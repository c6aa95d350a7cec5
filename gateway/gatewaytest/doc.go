// Package gatewaytest holds what the tests of the gateway share: the conformance
// suites of the store and the databases that they run on, a checker of thread
// logs, and stand-ins for what lies outside of the package under test (a bus that
// remembers, routes that are set by hand, a host that keeps its side of the relay
// contract). It is imported by test files alone.
package gatewaytest
