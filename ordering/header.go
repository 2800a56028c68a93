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

// MaxSequenceID bounds the length of a header value that is parsed, in bytes.
const MaxSequenceID = 1 << 20

// FormatSequenceID returns the header form of positions, which
// [ParseSequenceID] reads:
//
//	client/42/account/7=5, client/8/account/1=9;epoch=2;end
//
// where an epoch of 0 is not written.
//
// Streams are in the text form of keys, in which the header's own delimiters,
// spaces and non-ASCII bytes are written %XX.
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
		if p.Epoch != 0 {
			b.WriteString(";epoch=")
			b.WriteString(strconv.FormatUint(uint64(p.Epoch), 10))
		}
		if p.End {
			b.WriteString(";end")
		}
	}
	return b.String()
}

// ErrSequenceID is wrapped by the errors of [ParseSequenceID], which quote the
// input and say what is wrong with it.
var ErrSequenceID = errors.New("ordering: bad " + SequenceIDHeader)

// ParseSequenceID parses the header form of positions. As in the paper, the
// header may be a bare number if the key is known from elsewhere, for example
// from a routing key: then it is the number on stream. With the root as stream
// a bare number is an error. A number may be followed by an epoch and by end,
// each once and in any order; the epoch is from 1 to 65535, without leading
// zeros. Spaces and tabs around a comma, an equals sign or a semicolon are
// ignored. [Event.Validate] accepts the returned positions.
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
	place, parameters, more := strings.Cut(part, ";")
	key, number, named := strings.Cut(place, "=")
	switch {
	case named:
		if p.Stream, err = lockkeys.Parse(strings.TrimRight(key, " \t")); err != nil {
			return p, err
		}
	case alone && !stream.IsRoot():
		p.Stream, number = stream, place
	default:
		return p, errors.New("no '=': write STREAM=NUMBER")
	}
	if p.Number, err = strconv.ParseUint(strings.Trim(number, " \t"), 10, 63); err != nil {
		return p, ErrNumber
	}
	if more {
		if err := p.parseParameters(parameters); err != nil {
			return p, err
		}
	}
	return p, p.check()
}

// parseParameters reads what stands behind a number.
func (p *Position) parseParameters(text string) error {
	for parameter := range strings.SplitSeq(text, ";") {
		name, value, has := strings.Cut(parameter, "=")
		switch name = strings.Trim(name, " \t"); {
		case name == "end" && !has && !p.End:
			p.End = true
		case name == "epoch" && has && p.Epoch == 0:
			value = strings.Trim(value, " \t")
			epoch, err := strconv.ParseUint(value, 10, 16)
			if err != nil || value[0] == '0' {
				return errEpoch
			}
			p.Epoch = uint16(epoch)
		default:
			return errParameter
		}
	}
	return nil
}

var (
	errParameter = errors.New(`only "epoch=NUMBER" and "end" may follow a semicolon, each once`)
	errEpoch     = errors.New("epoch is not from 1 to 65535, without leading zeros")
)
