package native

// Cut is cut, for its property test.
func Cut(text string) []string { return cut(text) }
