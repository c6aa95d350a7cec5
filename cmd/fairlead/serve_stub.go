package main

import (
	"context"
	"errors"
)

var errNotBuilt = errors.New("not built yet")

func runServe(context.Context, *config, stdio, serveCmd) error { return errNotBuilt }

func runUserCreate(context.Context, *config, stdio, userCreateCmd) error { return errNotBuilt }

func runTokenCreate(context.Context, *config, stdio, tokenCreateCmd) error { return errNotBuilt }

func runImportState(context.Context, *config, stdio, importStateCmd) error { return errNotBuilt }
