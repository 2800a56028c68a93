package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/examples/ledger/internal/intake"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// identity tells an input from others; see [intake.Source]. What cannot be read
// again, and has no identity, is new each time.
type identity struct {
	name     string // for people
	identity string // "" if the first message is to tell
	again    bool   // it can be read again
	path     string // of a file
}

// named gives an input the identity that the caller of the program has chosen.
func (id identity) named(as string) identity {
	if as != "" {
		id.identity, id.again, id.path = "named "+as, true, ""
	}
	return id
}

// follow returns the source that knows what was read of the input before. If there
// are checkpoints, one is to be made after so many messages each, and what is before
// the last one is passed over.
func (in *input) follow(ctx context.Context, inputs store.Inputs, checkpoints store.Checkpoints, every int) *intake.Source {
	c := intake.Config{
		Inputs: inputs, Source: in.source, Name: in.identity.name, Identity: in.identity.identity,
		Checkpoints: checkpoints, Every: every,
	}
	if path := in.identity.path; path != "" {
		c.Legacy = func(known []store.Input) (int64, error) { return findFile(path, known) }
	}
	return intake.New(ctx, c)
}

// save returns the store's entry of what messages are taken from without an end:
// a new one, unless it has an identity.
func (id identity) save(ctx context.Context, s store.Store) (store.Input, error) {
	known, err := s.Inputs(ctx)
	if err != nil {
		return store.Input{}, err
	}
	i := slices.IndexFunc(known, func(k store.Input) bool { return k.Identity == id.identity })
	if id.identity != "" && i >= 0 {
		return known[i], nil
	}
	return s.SaveInput(ctx, store.Input{Name: id.name, Identity: id.identity})
}

// bytesForm is how inputs were known once: by their size and the SHA-256 of all
// that they had when they were last begun.
const bytesForm = "bytes:%d:%64s"

// findFile reads a file once and returns the ID of the longest input known by its
// bytes that it begins with, or 0.
func findFile(path string, known []store.Input) (id int64, err error) {
	type beginning struct {
		id, size int64
		digest   string
	}
	var list []beginning
	for _, k := range known {
		b := beginning{id: k.ID}
		if n, _ := fmt.Sscanf(k.Identity, bytesForm, &b.size, &b.digest); n == 2 {
			list = append(list, b)
		}
	}
	if len(list) == 0 {
		return 0, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	hash, size := sha256.New(), int64(0)
	slices.SortStableFunc(list, func(a, b beginning) int { return cmp.Compare(a.size, b.size) })
	for _, b := range list {
		n, err := io.CopyN(hash, f, b.size-size)
		size += n
		if err == io.EOF {
			break // longer than the file
		}
		if err != nil {
			return 0, err
		}
		if strings.EqualFold(b.digest, hex.EncodeToString(hash.Sum(nil))) {
			id = b.id
		}
	}
	return id, nil
}
