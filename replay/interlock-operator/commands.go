package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

// run runs the command.
func (o *options) run(ctx context.Context, out io.Writer) (err error) {
	open := sqlite.OpenOperator
	if strings.HasPrefix(o.db, "postgres://") || strings.HasPrefix(o.db, "postgresql://") {
		open = postgres.OpenOperator
	}
	db, err := open(ctx, o.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx = dispatcher.WithOperator(ctx, o.by, o.why)
	switch o.command {
	case "list":
		return o.list(ctx, db, out)
	case "owners":
		list, err := db.Terms(ctx)
		if err != nil {
			return err
		}
		return o.print(out, list, owners(list))
	case "requests":
		list, err := db.Requests(ctx, o.consumer, view.DefaultLimit)
		if err != nil {
			return err
		}
		return o.print(out, list, requests(list))
	case "serve":
		return o.serve(ctx, db, out)
	case "withdraw":
		id, err := strconv.ParseInt(o.argument, 10, 64)
		if err != nil {
			return wrong("%.40q is no number of a request", o.argument)
		}
		return db.Withdraw(ctx, id)
	}
	return o.ask(ctx, db, out)
}

// ask leaves a request, and waits for what becomes of it.
func (o *options) ask(ctx context.Context, db *sqlstore.Operator, out io.Writer) error {
	r, err := db.Ask(ctx, o.consumer, view.Action{Name: o.command, Target: o.argument})
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, o.wait, fmt.Errorf("nobody has carried it out within %v", o.wait))
	defer cancel()
	if r, err = db.Await(waiting, r.ID); err != nil {
		return err
	}
	if r.Error != "" {
		return fmt.Errorf("request %d: %s", r.ID, r.Error)
	}
	return o.print(out, r, view.Table{Name: fmt.Sprintf("request %d: done", r.ID)})
}

// sources returns what there is to see: of one consumer, or of all.
func (o *options) sources(ctx context.Context, db *sqlstore.Operator) (list []inspect.Named, err error) {
	names, err := db.Consumers(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if o.consumer != "" && o.consumer != name {
			continue
		}
		source := db.Of(name)
		if runs, ok := saga.ReaderOf(db.DB(), name); ok {
			source = db.With(name, runs)
		}
		list = append(list, inspect.Named{Name: name, Source: source})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: %.80q: the database has %q", sqlstore.ErrNoConsumer, o.consumer, names)
	}
	return list, nil
}

func (o *options) list(ctx context.Context, db *sqlstore.Operator, out io.Writer) error {
	sources, err := o.sources(ctx, db)
	if err != nil {
		return err
	}
	all := map[string]view.View{}
	for _, s := range sources {
		v, err := s.Source.View(ctx, view.Query{})
		if err != nil {
			return fmt.Errorf("consumer %s: %w", s.Name, err)
		}
		all[s.Name] = v
		if !o.json {
			if err := printView(out, s.Name, v); err != nil {
				return err
			}
		}
	}
	if o.json {
		return o.print(out, all)
	}
	return nil
}

// serve serves the page until ctx ends.
func (o *options) serve(ctx context.Context, db *sqlstore.Operator, out io.Writer) error {
	sources, err := o.sources(ctx, db)
	if err != nil {
		return err
	}
	page, err := inspect.New(inspect.Config{Sources: sources})
	if err != nil {
		return err
	}
	defer page.Close()
	l, err := net.Listen("tcp", o.argument)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if _, err := fmt.Fprintf(out, "http://%s/\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
