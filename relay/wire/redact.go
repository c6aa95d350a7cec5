package wire

import "strings"

const redactedWord = "[redacted]"

// Redacted is a text that may leave a host: words that look like a credential, an
// address or a path of its machine are left out (RH64). It errs on the safe side.
func Redacted(text string) string {
	words := strings.Fields(text)
	found, next := false, false
	for i, word := range words {
		bare := strings.ToLower(strings.Trim(word, "\"'`()[]{}<>.,;!?"))
		if next || bare != "" && secretWord(bare) {
			words[i], found = redactedWord, true
		}
		next = bare == "bearer" || bare == "basic" || bare == "digest" || strings.HasSuffix(bare, "authorization:")
	}
	if !found {
		return text
	}
	return strings.Join(words, " ")
}

func secretWord(word string) bool {
	if looksLikeHeader(word) && !strings.HasSuffix(word, "authorization:") {
		return true
	}
	return namesSecret(word) || looksLikeKey(word) || strings.Contains(word, `\`) ||
		len(word) > 2 && hasPrefix(word, "/", "~/", "./", "../")
}
