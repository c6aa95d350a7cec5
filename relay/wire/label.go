package wire

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxLabelChars = 256

// safeLabel is the label filter of RH21: it refuses texts that look like a
// credential, a URL or a path of the host's machine. It errs on the safe side, so
// some harmless names (a route called "workspace") are refused too.
func safeLabel(s string) bool {
	if utf8.RuneCountInString(s) > maxLabelChars || strings.ContainsFunc(s, unicode.IsControl) {
		return false
	}
	s = strings.ToLower(s)
	return !looksLikeHeader(s) && !namesSecret(s) && !looksLikeKey(s) && !looksLikePath(s)
}

func looksLikeHeader(s string) bool {
	return strings.Contains(s, "://") || strings.Contains(s, "authorization:") ||
		hasPrefix(s, "bearer ", "basic ", "digest ", "token ", "apikey ")
}

// namesSecret finds "…token:" and "…api-key=".
func namesSecret(s string) bool {
	s = strings.ReplaceAll(s, "-", "_")
	for i := range len(s) {
		if s[i] != ':' && s[i] != '=' {
			continue
		}
		for _, word := range [...]string{"api_key", "token", "secret", "password", "passwd"} {
			if strings.HasSuffix(s[:i], word) {
				return true
			}
		}
	}
	return false
}

func looksLikeKey(s string) bool {
	parts := strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("=:,;\"'`", r)
	})
	return slices.ContainsFunc(parts, func(p string) bool {
		return hasPrefix(p, "sk-", "sk_", "rk-", "pk-", "ghp_", "gho_", "ghu_", "ghs_", "github_pat_",
			"hf_", "glpat-", "xoxb-", "xoxp-", "xoxa-", "akia", "aiza", "eyj")
	})
}

func looksLikePath(s string) bool {
	if hasPrefix(s, "/", "~/", "./", "../") || strings.Contains(s, `\`) {
		return true
	}
	if len(s) >= 3 && s[0] >= 'a' && s[0] <= 'z' && s[1] == ':' && s[2] == '/' {
		return true
	}
	for _, part := range [...]string{"/users/", "/volumes/", "/home/", "/private/", "file://", "/.ssh/"} {
		if strings.Contains(s, part) {
			return true
		}
	}
	return slices.ContainsFunc(strings.Split(s, "/"), func(segment string) bool {
		switch segment {
		case ".", "..", ".ssh", ".config", "secret", "secrets", "credential", "credentials",
			"relative", "workspace", "tmp":
			return true
		}
		return false
	})
}

func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}
