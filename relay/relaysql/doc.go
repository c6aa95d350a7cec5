// Package relaysql keeps what a relay host must not forget in one SQLite file:
// the rows of relay.Store and those of native.Store. Each method is one
// transaction of sqldb's writer, or one of its read snapshots; the migrations
// hold the rules that every row must keep.
package relaysql
