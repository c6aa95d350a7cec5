package sqldb

import (
	"time"

	"github.com/ncruces/go-sqlite3/vfs"
)

// SetPatience bounds how long a server is asked for the outcome of a commit.
func SetPatience(db *DB, d time.Duration) { db.engine.(*postgres).patience = d }

// Rebind is rebind.
func Rebind(query string) string { return rebind(query) }

// EncodeText and DecodeText are the stored form of a text and back.
func EncodeText(s string) string { return encodeText(s) }

// DecodeText reverses EncodeText.
func DecodeText(s string) string { return decodeText(s) }

// RoomVFS is the package's way to files, above another one.
func RoomVFS(under vfs.VFSFilename) vfs.VFS { return roomVFS{under} }
