package wire

import (
	"errors"
	"fmt"
	"time"
)

// Code names a class of failure. It is part of the wire format: lower case,
// words joined by underscores, never reused for another meaning.
type Code string

// Error is the one error type that crosses a package border with a meaning for
// the receiver. Message is safe to show to a person: it never holds a secret, a
// path, a provider's text or an echoed value. The cause is for the operator's
// log alone.
type Error struct {
	Code      Code
	Message   string
	Retryable bool
	// Fields names the fields at fault, in the order in which they were found.
	Fields []Field
	// RetryAfter is how long the caller should wait; 0 is unset.
	RetryAfter time.Duration
	// Limit is the limit that was exceeded, in its own unit; 0 is unset.
	Limit int

	cause error
}

// Field is one fault of one field: Path as in userMessage.parts[0].text, Rule
// one of required, unknown, type, uuid, enum, min, max, utf8, nul, blank.
type Field struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
}

// NewError makes an error with a code and a message that is safe to show.
func NewError(code Code, message string) *Error {
	return &Error{Code: code, Message: message, Retryable: retryable(code)}
}

// WrapError is NewError with a cause for the operator's log.
func WrapError(code Code, message string, cause error) *Error {
	e := NewError(code, message)
	e.cause = cause
	return e
}

func (e *Error) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.cause)
}

func (e *Error) Unwrap() error { return e.cause }

// CodeOf gives the code of the first *Error in err's chain, CodeInternal for
// any other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// AsError gives the first *Error in err's chain, or one with CodeInternal that
// keeps err as its cause. It gives nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return WrapError(CodeInternal, "Something went wrong on this server.", err)
}

// ErrorBody is an error as it stands in a reply, an acknowledgement or an HTTP
// answer.
type ErrorBody struct {
	Code         Code    `json:"code"`
	Message      string  `json:"message"`
	Retryable    bool    `json:"retryable"`
	Fields       []Field `json:"fields,omitempty"`
	RetryAfterMs int64   `json:"retryAfterMs,omitempty"`
	Limit        int     `json:"limit,omitempty"`
}

// Body is the error without its cause.
func (e *Error) Body() *ErrorBody {
	return &ErrorBody{
		Code: e.Code, Message: e.Message, Retryable: e.Retryable, Fields: e.Fields,
		RetryAfterMs: e.RetryAfter.Milliseconds(), Limit: e.Limit,
	}
}
