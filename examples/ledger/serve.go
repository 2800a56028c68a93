package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/dispatcher/telemetry/scrape"
	"github.com/interlock-go/interlock/dispatcher/view"
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

// page returns the page of what the service does. With a token it asks for it, and
// whoever gives a name with it may act; at an address of this machine anybody on it may;
// otherwise nobody.
func (t *term) page(local bool, stderr io.Writer) (*inspect.Inspector, http.Handler, error) {
	config := inspect.Config{Sources: t.service.Sources(), Logger: t.options.serviceLogger(stderr)}
	password := inspect.Password(t.options.token)
	switch {
	case password != "":
		config.Authorize = password.Authorize
	case local:
		config.Authorize = func(*http.Request, string, view.Action) (string, error) { return "somebody on this machine", nil }
	}
	inspector, err := inspect.New(config)
	if err != nil || password == "" {
		return inspector, inspector, err
	}
	return inspector, password.Guard(inspector), nil
}

// scraped returns what Prometheus scrapes: the metrics of what the page shows.
func (t *term) scraped() (http.Handler, error) {
	for _, s := range t.service.Sources() {
		if err := t.metrics.Add(s.Name, s.Source.(view.Metered)); err != nil {
			return nil, err
		}
	}
	return scrape.Handler(t.metrics)
}

// serveUntil serves until ctx ends or the service has stopped after a failure,
// and then until the requests under way are answered.
func (t *term) serveUntil(ctx context.Context, listener net.Listener, stderr io.Writer) error {
	fmt.Fprintf(stderr, "serving at http://%s: POST /messages, GET /schema, GET /health, GET /metrics, GET %s\n", listener.Addr(), web.PagePath)
	local := t.options.token == "" && isLoopback(listener)
	inspector, page, err := t.page(local, stderr)
	if err != nil {
		return err
	}
	metrics, err := t.scraped()
	if err != nil {
		return errors.Join(err, inspector.Close())
	}
	server := &http.Server{
		Handler:           web.Handler(t.service, web.Config{Schema: messageSchema, Token: t.options.token, Local: local, Page: page, Metrics: metrics}),
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
			return errors.Join(err, inspector.Close())
		case <-ctx.Done():
			serving = false
		case <-time.After(100 * time.Millisecond):
			serving = !t.service.Stopped()
		}
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err = errors.Join(inspector.Close(), server.Shutdown(patient)) // the server waits for open pages
	<-failed                                                       // it is http.ErrServerClosed
	return err
}
