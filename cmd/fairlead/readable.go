package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/relay/wire"
)

// readable gives an error of the product as a person at a shell should see it:
// the message, the fields, and the code to search for.
func readable(err error) error {
	if err == nil {
		return nil
	}
	var e *wire.Error
	if !errors.As(err, &e) || e.Code == wire.CodeInternal {
		return err
	}
	var fields []string
	for _, f := range e.Fields {
		fields = append(fields, f.Path+": "+f.Rule)
	}
	if len(fields) > 0 {
		return fmt.Errorf("%s (%s; %s)", e.Message, e.Code, strings.Join(fields, ", "))
	}
	if cause := errors.Unwrap(e); cause != nil {
		return fmt.Errorf("%s (%s): %w", e.Message, e.Code, cause)
	}
	return fmt.Errorf("%s (%s)", e.Message, e.Code)
}
