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
	listener, err := o.openListener(ctx, stderr)
	if err != nil {
		return false, err
	}
	in := &input{identity: identity{name: "HTTP at " + listener.Addr().String()}}
	t, err := o.begin(ctx, stderr, in, nil)
	if err != nil {
		return false, errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, t.close()) }()

	summary := &report.Summary{Input: in.identity.name, Served: true}
	start := time.Now()
	served := t.serveUntil(ctx, listener, stderr)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	waiting, ended := t.service.Finish(finish)
	summary.Waiting, summary.Failure = waiting, errors.Join(served, ended)
	summary.Elapsed = time.Since(start)
	summary.Read = t.service.Counts().Accepted
	return t.conclude(ctx, stdout, summary)
}

// openListener listens where -listen says, on the loopback interface if that
// names no host.
func (o *options) openListener(ctx context.Context, stderr io.Writer) (net.Listener, error) {
	address := o.listen
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil && o.token == "" && !isLoopback(listener) {
		fmt.Fprintf(stderr, "warning: whoever reaches %s can send messages: there is no authentication without -token\n", listener.Addr())
	}
	return listener, err
}

func isLoopback(listener net.Listener) bool {
	address, ok := listener.Addr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}

// serveUntil serves until ctx ends or the service has stopped after a failure,
// and then until the requests under way are answered.
func (t *term) serveUntil(ctx context.Context, listener net.Listener, stderr io.Writer) error {
	fmt.Fprintf(stderr, "serving at http://%s: POST /messages, GET /schema, GET /health\n", listener.Addr())
	server := &http.Server{
		Handler: web.Handler(t.service, web.Config{
			Schema: messageSchema, Token: t.options.token, Local: t.options.token == "" && isLoopback(listener),
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	for serving := true; serving; {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			serving = false
		case <-time.After(100 * time.Millisecond):
			serving = !t.service.Stopped()
		}
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := server.Shutdown(patient)
	<-failed // it is http.ErrServerClosed
	return err
}
