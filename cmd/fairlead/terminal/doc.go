// Package terminal is the chat in a terminal: what package client knows, drawn
// as text. It has three faces. A Once sends one message and writes its answer,
// for scripts; with JSON it writes one object a line instead. A Talk is for a
// person: an answer streams in above the line that is being typed.
//
// Nothing that came over the network is trusted with the terminal: every text
// goes through Clean before it is written, so that no answer, title or error can
// move the cursor, change a colour or title, or hide what it says. The only
// control sequences are those that Screen makes itself.
package terminal
