package feed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

// File is what a [Seeker] can read.
type File interface {
	io.ReadSeeker
	io.ReaderAt
}

// seen is what was read of a file. The nil seen notes nothing.
type seen struct {
	file  File
	hash  hash.Hash
	size  int64
	whole bool // up to the end of a line
}

func (s *seen) add(part []byte) {
	if s == nil || len(part) == 0 {
		return
	}
	s.hash.Write(part)
	s.size += int64(len(part))
	s.whole = part[len(part)-1] == '\n'
}

// filePlace is a place in a file: the end of a line.
type filePlace struct {
	Version int
	Offset  int64  // in bytes
	Line    int    // before it
	Hash    []byte // the state of the SHA-256 of all before it
	Tail    []byte // the SHA-256 of the last of it, tailSize bytes at most
}

const (
	placeVersion = 1
	tailSize     = 64 << 10
)

// ndjsonFile is an ndjson that reads a file.
type ndjsonFile struct{ *ndjson }

// Place implements [Seeker].
func (n *ndjsonFile) Place() ([]byte, error) {
	if len(n.rest) > 0 || !n.seen.whole {
		return nil, nil
	}
	state, err := n.seen.hash.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil, err
	}
	tail, err := n.seen.tail(n.seen.size)
	if err != nil {
		return nil, err
	}
	return json.Marshal(filePlace{placeVersion, n.seen.size, n.line, state, tail})
}

// tail returns the digest of the last bytes before an offset.
func (s *seen) tail(offset int64) ([]byte, error) {
	from := max(offset-tailSize, 0)
	text := make([]byte, offset-from)
	if n, err := s.file.ReadAt(text, from); n < len(text) {
		return nil, fmt.Errorf("%w: it has no %d bytes: %w", ErrOtherPlace, offset, err)
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// parsePlace reads a place, with the SHA-256 of all before it.
func parsePlace(text []byte) (p filePlace, all hash.Hash, err error) {
	all = sha256.New()
	if err = json.Unmarshal(text, &p); err == nil && p.Version != placeVersion {
		err = fmt.Errorf("a place of version %d", p.Version)
	}
	if err == nil {
		err = all.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.Hash)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrOtherPlace, err)
	}
	return p, all, err
}

// Seek implements [Seeker].
func (n *ndjsonFile) Seek(place []byte) error {
	p, all, err := parsePlace(place)
	if err != nil {
		return err
	}
	tail, err := n.seen.tail(p.Offset)
	if err != nil {
		return err
	}
	if !bytes.Equal(tail, p.Tail) {
		return fmt.Errorf("%w: it differs before byte %d", ErrOtherPlace, p.Offset)
	}
	if _, err := n.seen.file.Seek(p.Offset, io.SeekStart); err != nil {
		return err
	}
	n.r.Reset(n.seen.file)
	n.line, n.rest = p.Line, nil
	n.seen.hash, n.seen.size, n.seen.whole = all, p.Offset, true
	return nil
}

// Check implements [Seeker].
func (n *ndjsonFile) Check(ctx context.Context, place []byte) error {
	p, all, err := parsePlace(place)
	if err != nil {
		return err
	}
	now := sha256.New()
	buffer := make([]byte, 1<<20)
	for at := int64(0); at < p.Offset; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buffer[:min(int64(len(buffer)), p.Offset-at)]
		if n, err := n.seen.file.ReadAt(part, at); n < len(part) {
			return fmt.Errorf("%w: it has no %d bytes: %w", ErrOtherPlace, p.Offset, err)
		}
		now.Write(part)
		at += int64(len(part))
	}
	if !bytes.Equal(now.Sum(nil), all.Sum(nil)) {
		return fmt.Errorf("%w: it differs before line %d", ErrOtherPlace, p.Line+1)
	}
	return nil
}
