package ordering

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
)

// SequenceIDHeader is the name of the header that carries an event's
// positions, after A. Kolodiuk and O. Voloschuk, "Per-order ordered
// parallelism method in microservice event delivery systems" (2025), DOI
// 10.31673/2412-9070.2025.061213.
const SequenceIDHeader = "X-Sequence-ID"

// MaxSequenceID is the longest header value that is read, in bytes.
const MaxSequenceID = 1 << 20

// FormatSequenceID returns the header form of positions, which
// [ParseSequenceID] reads:
//
//	client/42/account/7=5, client/8/account/1=9;end
//
// Streams are in the text form of keys, in which the characters that the
// header needs for itself, spaces and all that is not ASCII are written %XX.
func FormatSequenceID(positions []Position) string {
	var b strings.Builder
	for i, p := range positions {
		if i > 0 {
			b.WriteString(", ")
		}
		for _, c := range []byte(p.Stream.String()) {
			if c <= ' ' || c >= 0x7f || c == ',' || c == ';' || c == '=' {
				fmt.Fprintf(&b, "%%%02X", c)
			} else {
				b.WriteByte(c)
			}
		}
		b.WriteByte('=')
		b.WriteString(strconv.FormatUint(p.Number, 10))
		if p.End {
			b.WriteString(";end")
		}
	}
	return b.String()
}

// ErrSequenceID is wrapped, with the input and what is wrong with it, by the
// errors of [ParseSequenceID].
var ErrSequenceID = errors.New("ordering: bad " + SequenceIDHeader)

// ParseSequenceID reads the header form of positions. Where the key is known
// from elsewhere, from a routing key for example, the header may be a bare
// number, as in the paper: then that is the number on stream. With the root as
// stream a bare number is an error. Spaces and tabs around a comma, an equals
// sign or a semicolon do not count. The positions returned are fit for an
// event: [Event.Validate] accepts them.
func ParseSequenceID(header string, stream lockkeys.Key) ([]Position, error) {
	bad := func(part string, reason error) error {
		return fmt.Errorf("%w %.80q: at %.80q: %w", ErrSequenceID, header, part, reason)
	}
	if len(header) > MaxSequenceID {
		return nil, bad("", fmt.Errorf("longer than %d bytes", MaxSequenceID))
	}
	parts := strings.Count(header, ",") + 1
	if parts > MaxPositions {
		return nil, bad("", ErrTooManyPositions)
	}
	positions := make([]Position, 0, parts)
	for part := range strings.SplitSeq(header, ",") {
		p, err := parsePosition(strings.Trim(part, " \t"), stream, parts == 1)
		if err != nil {
			return nil, bad(part, err)
		}
		positions = append(positions, p)
	}
	if p, ok := repeated(positions); ok {
		return nil, bad(p.String(), ErrRepeatedStream)
	}
	return positions, nil
}

func parsePosition(part string, stream lockkeys.Key, alone bool) (p Position, err error) {
	key, rest, named := strings.Cut(part, "=")
	switch {
	case named:
		if p.Stream, err = lockkeys.Parse(strings.TrimRight(key, " \t")); err != nil {
			return p, err
		}
	case alone && !stream.IsRoot():
		p.Stream, rest = stream, part
	default:
		return p, errors.New("no '=': write STREAM=NUMBER")
	}
	number, parameter, has := strings.Cut(rest, ";")
	if has {
		if strings.Trim(parameter, " \t") != "end" {
			return p, errors.New("only \"end\" may follow a semicolon")
		}
		p.End = true
	}
	if p.Number, err = strconv.ParseUint(strings.Trim(number, " \t"), 10, 63); err != nil {
		return p, ErrNumber
	}
	return p, p.check()
}
