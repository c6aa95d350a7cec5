package sqldb

import (
	"strconv"
	"strings"
)

// rebind turns "?" placeholders into $1, $2, … and leaves alone what is not one:
// quoted texts and names, comments, dollar-quoted texts, and the operators ?|, ?&
// and @? of JSON. A lone ? is always a placeholder; the JSON operator of that name
// is written jsonb_exists.
func rebind(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 16)
	n := 0
	for i := 0; i < len(query); {
		if end := opaque(query, i); end > i {
			b.WriteString(query[i:end])
			i = end
			continue
		}
		if query[i] != '?' {
			b.WriteByte(query[i])
			i++
			continue
		}
		n++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		i++
	}
	return b.String()
}

// opaque gives the end of the part that starts at i and is not looked into, or i.
func opaque(q string, i int) int {
	rest := q[i:]
	switch {
	case q[i] == '\'' || q[i] == '"':
		return quoted(q, i)
	case strings.HasPrefix(rest, "--"):
		return through(q, i+2, "\n")
	case strings.HasPrefix(rest, "/*"):
		return through(q, i+2, "*/")
	case q[i] == '$':
		return dollarQuoted(q, i)
	case strings.HasPrefix(rest, "?|"), strings.HasPrefix(rest, "?&"), strings.HasPrefix(rest, "@?"):
		if strings.HasPrefix(rest, "?||") { // a placeholder and a concatenation
			return i
		}
		return i + 2
	}
	return i
}

// quoted gives the end of a quoted part; a doubled quote opens it again, which
// comes to the same.
func quoted(q string, i int) int { return through(q, i+1, q[i:i+1]) }

func dollarQuoted(q string, i int) int {
	end := strings.IndexByte(q[i+1:], '$')
	if end < 0 {
		return i
	}
	tag := q[i : i+1+end+1]
	for j, c := range tag[1 : len(tag)-1] {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (j == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return through(q, i+len(tag), tag)
}

// through gives the place behind the next end from i on, or the end of q.
func through(q string, i int, end string) int {
	if j := strings.Index(q[i:], end); j >= 0 {
		return i + j + len(end)
	}
	return len(q)
}
