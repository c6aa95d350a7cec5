package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

func (f *Failure) Error() string {
	if f.Cause == nil {
		return string(f.Code)
	}
	return fmt.Sprintf("%s: %v", f.Code, f.Cause)
}

func (f *Failure) Unwrap() error { return f.Cause }

// fail makes a Failure. Its cause is written here, never taken from a provider.
func fail(code wire.Code, format string, args ...any) *Failure {
	return &Failure{Code: code, Cause: fmt.Errorf(format, args...)}
}

// errStalled is the cause with which a watch ends a request.
var errStalled = errors.New("provider was silent for too long")

// codeOfStatus is the class of an HTTP status that is not a success.
func codeOfStatus(status int) wire.Code {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return wire.CodeModelCredentialInvalid
	case status == http.StatusNotFound:
		return wire.CodeModelNotFound
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return wire.CodeModelRateLimited
	case status == http.StatusServiceUnavailable, status == statusOverloaded:
		return wire.CodeModelOverloaded
	case status >= 300 && status < 400:
		return wire.CodeModelUnreachable // redirects are not followed
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return wire.CodeModelFailed
	case status >= 400 && status < 500:
		return wire.CodeModelRequestRefused
	}
	return wire.CodeModelFailed
}

// statusOverloaded is Anthropic's own status for being overloaded.
const statusOverloaded = 529

// kinds maps words within the type or code of an error object to a class. The
// first that fits decides, so the narrower ones stand first.
var kinds = []struct {
	word string
	code wire.Code
}{
	{"insufficient_quota", wire.CodeModelRateLimited},
	{"quota", wire.CodeModelRateLimited},
	{"rate_limit", wire.CodeModelRateLimited},
	{"too_many_requests", wire.CodeModelRateLimited},
	{"resource_exhausted", wire.CodeModelRateLimited},
	{"billing", wire.CodeModelRateLimited},
	{"overloaded", wire.CodeModelOverloaded},
	{"unavailable", wire.CodeModelOverloaded},
	{"invalid_api_key", wire.CodeModelCredentialInvalid},
	{"authentication", wire.CodeModelCredentialInvalid},
	{"unauthorized", wire.CodeModelCredentialInvalid},
	{"unauthenticated", wire.CodeModelCredentialInvalid},
	{"permission", wire.CodeModelCredentialInvalid},
	{"content_filter", wire.CodeModelRefused},
	{"content_policy", wire.CodeModelRefused},
	{"model_not_found", wire.CodeModelNotFound},
	{"invalid_model", wire.CodeModelNotFound},
	{"not_found", wire.CodeModelNotFound},
	{"context_length", wire.CodeModelRequestRefused},
	{"too_large", wire.CodeModelRequestRefused},
	{"invalid_request", wire.CodeModelRequestRefused},
	{"invalid_prompt", wire.CodeModelRequestRefused},
	{"invalid_argument", wire.CodeModelRequestRefused},
	{"bad_request", wire.CodeModelRequestRefused},
	{"badrequest", wire.CodeModelRequestRefused},
}

// errorObject is what an API puts under "error"; some put a string there.
type errorObject struct {
	Type   str `json:"type"`
	Status str `json:"status"`
	Code   any `json:"code"`
}

// codeOfError is the class of an error object; fallback when it tells none.
func codeOfError(raw json.RawMessage, fallback wire.Code) wire.Code {
	var e errorObject
	if json.Unmarshal(raw, &e) != nil {
		return fallback
	}
	var words []string
	switch c := e.Code.(type) {
	case string:
		if status, err := strconv.Atoi(c); err == nil {
			return codeOfNumber(status, fallback)
		}
		words = append(words, c)
	case float64:
		return codeOfNumber(int(c), fallback)
	}
	for _, w := range append(words, string(e.Type), string(e.Status)) {
		w = strings.ToLower(w)
		for _, k := range kinds {
			if strings.Contains(w, k.word) {
				return k.code
			}
		}
	}
	return fallback
}

func codeOfNumber(status int, fallback wire.Code) wire.Code {
	if status >= 400 && status < 600 {
		return codeOfStatus(status)
	}
	return fallback
}

// errorBody finds the error object in JSON: under "error", also within an
// array, or the body itself where it says that it is one. ok is false when the
// body is no error.
func errorBody(body []byte) (raw json.RawMessage, ok bool) {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if len(body) > 0 && body[0] == '[' && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var b struct {
		Error  json.RawMessage `json:"error"`
		Object str             `json:"object"`
		Type   str             `json:"type"`
	}
	if json.Unmarshal(body, &b) != nil {
		return nil, false
	}
	if present(b.Error) {
		return b.Error, true
	}
	if b.Object == "error" || b.Type == "error" {
		return body, true
	}
	return nil, false
}

// detailBody is errorBody for the error bodies of FastAPI.
func detailBody(body []byte) (raw json.RawMessage, ok bool) {
	var b struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &b) != nil || !present(b.Detail) {
		return nil, false
	}
	return b.Detail, true
}

// present tells whether a field holds anything.
func present(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "{}", "[]":
		return false
	}
	return true
}

// refused is the Failure of an answer whose status is not a success.
func refused(status int, h http.Header, body []byte, now time.Time) *Failure {
	code := codeOfStatus(status)
	// A bad request may be one of a model that is not there, or a refusal.
	if code == wire.CodeModelRequestRefused {
		if raw, ok := errorBody(body); ok {
			code = codeOfError(raw, code)
		}
	}
	f := fail(code, "provider answered with HTTP status %d", status)
	if code == wire.CodeModelRateLimited {
		f.RetryAt = retryAt(h, now)
	}
	return f
}

// maxRetryAfter bounds what a provider may ask for, so that a mistaken header
// cannot close a route for good.
const maxRetryAfter = 24 * time.Hour

// retryAt reads Retry-After (seconds or a date) or retry-after-ms.
func retryAt(h http.Header, now time.Time) time.Time {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return now.Add(clampWait(ms / 1000))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		if s > 0 {
			return now.Add(clampWait(s))
		}
		return time.Time{}
	}
	at, err := http.ParseTime(v)
	if err != nil || !at.After(now) {
		return time.Time{}
	}
	return now.Add(min(at.Sub(now), maxRetryAfter))
}

func clampWait(seconds float64) time.Duration {
	if seconds >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}
