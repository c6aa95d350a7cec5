// Package sqldb opens a database the way Fairlead uses one: a single writer
// goroutine that commits in groups, a small pool of readers, numbered
// migrations, and error classes that do not depend on the driver.
package sqldb
