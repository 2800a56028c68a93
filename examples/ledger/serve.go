package main

import (
	"context"
	"io"
)

func (o *options) serve(ctx context.Context, stdout, stderr io.Writer) (bool, error) {
	return false, nil
}
