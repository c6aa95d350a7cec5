package sqldb_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay/sqldb"
)

func TestRebind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, query, want string }{
		{"none", "SELECT 1", "SELECT 1"},
		{"numbers", "INSERT INTO t VALUES (?, ?,?)", "INSERT INTO t VALUES ($1, $2,$3)"},
		{"a text", "SELECT '?', 'it''s ?' WHERE a = ?", "SELECT '?', 'it''s ?' WHERE a = $1"},
		{"a name", `SELECT "odd?name" FROM t WHERE a = ?`, `SELECT "odd?name" FROM t WHERE a = $1`},
		{"comments", "SELECT 1 -- why?\n, ? /* what? */ , ?", "SELECT 1 -- why?\n, $1 /* what? */ , $2"},
		{"dollar quotes", "SELECT $$?$$, $q$ ? $x$ ? $q$, ?", "SELECT $$?$$, $q$ ? $x$ ? $q$, $1"},
		{"a placeholder of the server", "SELECT $1, ?", "SELECT $1, $1"},
		{"operators of JSON", "SELECT a ?| b, a ?& b, a @? '$.x' WHERE c = ?", "SELECT a ?| b, a ?& b, a @? '$.x' WHERE c = $1"},
		{"a concatenation", "SELECT ?||'x' || ?", "SELECT $1||'x' || $2"},
		{"open ends", "SELECT ? '?", "SELECT $1 '?"},
		{"more than nine", strings.Repeat("?", 11), "$1$2$3$4$5$6$7$8$9$10$11"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := sqldb.Rebind(tt.query); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "\uFDD0", "\uFDD000", "\xff", "\xef\xb7", "\uFDD0\x00\uFDD0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		stored := sqldb.EncodeText(s)
		if !utf8.ValidString(stored) || strings.Contains(stored, "\x00") {
			t.Errorf("%q is stored as %q, which PostgreSQL refuses", s, stored)
		}
		if back := sqldb.DecodeText(stored); back != s {
			t.Errorf("%q became %q", s, back)
		}
		sqldb.DecodeText(s) // takes anything
	})
}

func FuzzRebind(f *testing.F) {
	for _, s := range []string{"?", "'?", "$a$ ? $a$", "--?", "/*?", "a ?| b", "\"?\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if !strings.Contains(query, "?") && sqldb.Rebind(query) != query {
			t.Errorf("%q was changed", query)
		}
		sqldb.Rebind(query)
	})
}
