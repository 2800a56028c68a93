package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"

	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// identity is what tells an input from others, so that one that was begun can
// be gone on with: a regular file by its bytes, made-up messages by what they
// are made from. What cannot be read again has neither, and is new each time.
type identity struct {
	name   string // for people
	file   string // path
	recipe string
}

// inputs is where inputs are kept.
type inputs interface {
	Inputs(ctx context.Context) ([]store.Input, error)
	SaveInput(ctx context.Context, in store.Input) (store.Input, error)
}

// find returns the store's entry of the input, a new one if there is none. A
// file is the one that was begun if it begins with the same bytes; what was
// added to it since is new.
func (id identity) find(ctx context.Context, s inputs) (store.Input, error) {
	in := store.Input{Name: id.name, Digest: id.recipe}
	known, err := s.Inputs(ctx)
	if err != nil {
		return in, err
	}
	switch {
	case id.file != "":
		in.ID, in.Size, in.Digest, err = findFile(id.file, known)
	case id.recipe != "":
		i := slices.IndexFunc(known, func(k store.Input) bool { return k.Size == 0 && k.Digest == id.recipe })
		if i >= 0 {
			return known[i], nil
		}
	}
	if err != nil {
		return in, err
	}
	return s.SaveInput(ctx, in)
}

// findFile reads a file once and returns its size and digest, and the ID of
// the longest known input that it begins with, or 0.
func findFile(path string, known []store.Input) (id, size int64, digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, "", err
	}
	defer f.Close()
	hash := sha256.New()
	sum := func() string { return hex.EncodeToString(hash.Sum(nil)) }
	slices.SortStableFunc(known, func(a, b store.Input) int { return cmp.Compare(a.Size, b.Size) })
	for _, k := range known {
		n, err := io.CopyN(hash, f, k.Size-size)
		size += n
		if err == io.EOF {
			break // longer than the file
		}
		if err != nil {
			return 0, 0, "", err
		}
		if k.Size > 0 && k.Digest == sum() {
			id = k.ID
		}
	}
	n, err := io.Copy(hash, f)
	return id, size + n, sum(), err
}
