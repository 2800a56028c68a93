package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/examples/ledger/internal/web"
)

// serve takes messages over HTTP until ctx ends, and writes the summary.
func (o *options) serve(ctx context.Context, stdout, stderr io.Writer) (good bool, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return false, err
	}
	id := identity{name: "HTTP at " + listener.Addr().String()}
	s, err := o.begin(ctx, stderr, id, nil)
	if err != nil {
		return false, errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, s.close()) }()

	summary := &report.Summary{Input: id.name, Served: true}
	start := time.Now()
	served := s.serveUntil(ctx, listener, stderr)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	waiting, ended := s.service.Finish(finish)
	summary.Waiting, summary.Failure = waiting, errors.Join(served, ended)
	summary.Elapsed = time.Since(start)
	summary.Read = s.service.Counts().Accepted
	return s.conclude(ctx, stdout, summary)
}

// serveUntil serves until ctx ends, and then until the requests under way are
// answered.
func (s *session) serveUntil(ctx context.Context, listener net.Listener, stderr io.Writer) error {
	fmt.Fprintf(stderr, "serving at http://%s: POST /messages, GET /schema, GET /health\n", listener.Addr())
	server := &http.Server{
		Handler:           web.Handler(s.service, messageSchema),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := server.Shutdown(patient)
	<-failed // it is http.ErrServerClosed
	return err
}
