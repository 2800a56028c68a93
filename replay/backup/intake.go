package backup

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// firstBytes is the first allocation for a body, whatever length it
	// announces.
	firstBytes = 4 << 10
	// readSlack is the time for which MinRate does not apply to a body.
	readSlack = 2 * time.Second
)

// intake bounds the memory for bodies whose senders are not authenticated yet,
// since a signature covers the whole body. Everybody may fill it, so the latest
// bodies have precedence: when it is full, the body that has been read for the
// longest time is given up. One that comes at the speed of a network is complete
// long before that; those kept open on purpose are not.
type intake struct {
	most int64

	mu struct {
		sync.Mutex
		bytes int64
		open  list.List // of *reading, the oldest first
	}
}

// reading is a body being read. Its fields are guarded by intake.mu.
type reading struct {
	element *list.Element
	bytes   int64  // reserved for it
	cut     func() // ends a waiting Read; called only while it is open
	over    bool   // it was given up
}

func (in *intake) begin(cut func()) *reading {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := &reading{cut: cut}
	r.element = in.mu.open.PushBack(r)
	return r
}

// grow reserves n more bytes for a body, from older ones if necessary, and reports
// whether reading may continue.
func (in *intake) grow(r *reading, n int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !r.over && in.mu.bytes+n > in.most {
		oldest := in.mu.open.Front().Value.(*reading)
		oldest.over = true
		in.endLocked(oldest)
		oldest.cut()
	}
	if r.over {
		return false
	}
	r.bytes += n
	in.mu.bytes += n
	return true
}

// whole marks a body as complete, so that it is not given up; its bytes stay
// reserved. After it, as after end, nothing calls cut.
func (in *intake) whole(r *reading) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !r.over {
		in.mu.open.Remove(r.element)
	}
}

// end releases the bytes of a body.
func (in *intake) end(r *reading) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !r.over {
		in.endLocked(r)
	}
}

func (in *intake) endLocked(r *reading) {
	in.mu.open.Remove(r.element) // which does nothing the second time
	in.mu.bytes -= r.bytes
}

func (in *intake) isOver(r *reading) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return r.over
}

// count returns the number of bodies being read.
func (in *intake) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.open.Len()
}

// receive reads the body of a request and verifies its sender, who is the index of
// a key or token.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, verify func(body []byte) (who int, err error)) (body []byte, who int, no *refusal) {
	control := http.NewResponseController(w)
	reading := h.intake.begin(func() { _ = control.SetReadDeadline(time.Now()) })
	defer h.intake.end(reading)
	if body, no = h.read(w, r, reading, control); no != nil {
		return nil, 0, no
	}
	h.intake.whole(reading)
	who, err := verify(body)
	if err != nil {
		return nil, 0, h.unauthorised(w, r, err)
	}
	return body, who, nil
}

// read reads the body of a request. If the writer does not support deadlines, only
// those of the server apply.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, reading *reading, control *http.ResponseController) ([]byte, *refusal) {
	header := r.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(header); err != nil || kind != "application/json" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: "bad_type",
			err: fmt.Errorf("its type is %.80q: send application/json", header)}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: "bad_type",
			err: fmt.Errorf("its encoding is %.80q: send it without", coding)}
	}
	tooLarge := &refusal{status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
		err: fmt.Errorf("%w: the body is more than %d bytes", ErrTooLarge, h.cfg.MaxBytes)}
	if r.ContentLength > h.cfg.MaxBytes {
		return nil, tooLarge
	}
	body, err := h.readAll(http.MaxBytesReader(w, r.Body, h.cfg.MaxBytes), r.ContentLength, reading, control)
	switch large := (*http.MaxBytesError)(nil); {
	case err == nil:
		return body, nil
	case errors.As(err, &large):
		return nil, tooLarge
	case h.intake.isOver(reading):
		return nil, &refusal{status: http.StatusServiceUnavailable, code: codeBusy, after: time.Second,
			err: fmt.Errorf("%d bytes of bodies are being read, and this one for the longest time", h.cfg.MaxReadBytes)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &refusal{status: http.StatusRequestTimeout, code: "too_slow",
			err: fmt.Errorf("%d bytes of the body came in time: send it within %v, and after %v at no less than %d bytes per second",
				len(body), h.cfg.ReadTimeout, readSlack, h.cfg.MinRate)}
	}
	return nil, &refusal{status: http.StatusBadRequest, code: "bad_request",
		err: fmt.Errorf("the body was cut off after %d bytes", len(body))}
}

var errGivenUp = errors.New("given up")

// readAll reads a body with an announced length, or -1. Its memory grows with the
// bytes received. If it fails it returns those read so far.
func (h *Handler) readAll(from io.Reader, length int64, r *reading, control *http.ResponseController) ([]byte, error) {
	most := h.cfg.MaxBytes + 1 // so that the end is seen, or that there is more
	if length >= 0 {
		most = length + 1
	}
	began := time.Now()
	var body []byte
	for {
		if len(body) == cap(body) {
			size := min(max(2*int64(cap(body)), firstBytes), max(most, int64(cap(body))+1))
			if !h.intake.grow(r, size-int64(cap(body))) {
				return body, errGivenUp
			}
			body = append(make([]byte, 0, size), body...)
		}
		late := min(readSlack+time.Duration(float64(len(body))/float64(h.cfg.MinRate)*float64(time.Second)), h.cfg.ReadTimeout)
		_ = control.SetReadDeadline(began.Add(late))
		if h.intake.isOver(r) { // before the deadline was set, which replaced that of cut
			return body, errGivenUp
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return body, err
		}
	}
}
