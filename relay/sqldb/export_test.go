package sqldb

// Waiting is the number of updates that the writer has not taken up.
func Waiting(db *DB) int { return len(db.requests) }
