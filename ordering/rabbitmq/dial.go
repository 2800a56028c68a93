package rabbitmq

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Dialer opens a connection to a broker. It must return when ctx ends, and must
// not switch on the client's own recovery ([amqp.Config].Recovery): that would
// let acknowledgements of a lost connection reach a new one, where they mean
// other messages. It may be called from several goroutines at once.
type Dialer func(ctx context.Context) (*amqp.Connection, error)

// dialTimeout bounds connecting and the handshakes of [Dial].
const dialTimeout = 10 * time.Second

// Dial returns a Dialer for url. TLS is used for a URL that begins with
// "amqps:", with config.TLSClientConfig if that is set. The config is not
// changed. Connecting and the handshakes take 10 seconds at most, or what
// config.Dial has set. Headers of messages that the client cannot read are
// dropped; see [DroppedHeader].
func Dial(url string, config amqp.Config) Dialer { return dial(url, config, dialTimeout) }

func dial(url string, config amqp.Config, atMost time.Duration) Dialer {
	return func(ctx context.Context) (*amqp.Connection, error) {
		conn, err := dialOnce(ctx, url, config, atMost)
		if err != nil {
			return nil, fmt.Errorf("rabbitmq: connecting: %w", errors.Join(context.Cause(ctx), withoutURL(err)))
		}
		return conn, nil
	}
}

func dialOnce(ctx context.Context, url string, config amqp.Config, atMost time.Duration) (*amqp.Connection, error) {
	uri, err := amqp.ParseURI(url)
	if err != nil {
		return nil, err
	}
	c := config
	c.Properties = maps.Clone(c.Properties) // the client adds to them
	var socket net.Conn
	stop := func() bool { return true }
	c.Dial = func(network, _ string) (_ net.Conn, err error) {
		addr := net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
		if socket, err = dialSocket(ctx, config.Dial, network, addr, atMost); err != nil {
			return nil, err
		}
		plain := socket
		stop = context.AfterFunc(ctx, func() { _ = plain.Close() })
		if uri.Scheme == "amqps" { // below the sieve
			if socket, err = secured(ctx, socket, uri, config.TLSClientConfig); err != nil {
				return nil, err
			}
		}
		return newSieve(socket), nil
	}
	_, rest, _ := strings.Cut(url, ":")
	conn, err := amqp.DialConfig("amqp:"+rest, c)
	inTime := stop()
	if inTime && err == nil {
		return conn, nil
	}
	if socket != nil {
		_ = socket.Close() // the client leaves it open if a handshake fails
	}
	return nil, cmp.Or(err, error(amqp.ErrClosed))
}

func dialSocket(ctx context.Context, dial func(network, addr string) (net.Conn, error), network, addr string, atMost time.Duration) (net.Conn, error) {
	if dial != nil {
		return dial(network, addr)
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	socket, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return socket, socket.SetDeadline(time.Now().Add(atMost)) // the client removes it after the handshake
}

// secured returns a socket with TLS. Without a configuration it uses that of the
// URL.
func secured(ctx context.Context, socket net.Conn, uri amqp.URI, config *tls.Config) (net.Conn, error) {
	if config == nil {
		var err error
		if config, err = tlsOf(uri); err != nil {
			return socket, err
		}
	} else {
		config = config.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = uri.Host
	}
	secure := tls.Client(socket, config)
	return secure, secure.HandshakeContext(ctx)
}

// tlsOf returns the TLS configuration described by a URL.
func tlsOf(uri amqp.URI) (*tls.Config, error) {
	config := &tls.Config{ServerName: uri.ServerName, MinVersion: tls.VersionTLS12}
	if uri.CACertFile != "" {
		data, err := os.ReadFile(uri.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("certificates of authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("certificates of authorities: %s has none", uri.CACertFile)
		}
	}
	if uri.CertFile != "" && uri.KeyFile != "" {
		certificate, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// errURL replaces the parser's error for a URL, which quotes it.
var errURL = errors.New("write it as amqp://user:password@host:5672/vhost, with special characters of each part as %XX")

// withoutURL replaces an error that quotes a URL, which may contain a password.
func withoutURL(err error) error {
	if errors.As(err, new(*url.Error)) {
		return errURL
	}
	return err
}

// patience is the time after which the next broker is tried as well.
const patience = time.Second

// dialAny returns a Dialer for the first of several brokers that answers; see
// [Endpoint.URLs].
func dialAny(urls []string, atMost time.Duration) Dialer {
	dialers := make([]Dialer, len(urls))
	for i, url := range urls {
		dialers[i] = dial(url, amqp.Config{}, atMost)
	}
	if len(dialers) == 1 {
		return dialers[0]
	}
	var first atomic.Int64 // the number, modulo len(dialers), of the one to begin with
	return func(ctx context.Context) (*amqp.Connection, error) {
		begin := first.Load()
		conn, i, err := race(ctx, len(dialers), func(ctx context.Context, i int) (*amqp.Connection, error) {
			return dialers[(int(begin)+i)%len(dialers)](ctx)
		})
		first.Add(int64(i) + 1)
		return conn, err
	}
}

// race dials n brokers one after the other until one answers, and returns its
// index. It goes to the next one when one fails, or when patience is over. While
// one hangs, the failed ones are tried again each time patience is over, since
// they may be back soon. When all have failed, race fails. Connections of those
// that answer later are closed.
func race(ctx context.Context, n int, dial func(ctx context.Context, i int) (*amqp.Connection, error)) (*amqp.Connection, int, error) {
	type result struct {
		i    int
		conn *amqp.Connection
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result, n) // has room for all concurrent attempts
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	waiting, dialed, failed := make([]int, n), 0, []int(nil)
	for i := range waiting {
		waiting[i] = i
	}
	errs := make([]error, n)
	for {
		if len(waiting) > 0 {
			i := waiting[0]
			waiting = waiting[1:]
			dialed++
			running.Go(func() {
				conn, err := dial(ctx, i)
				results <- result{i, conn, err}
			})
		}
		select {
		case r := <-results:
			dialed--
			if r.err == nil {
				running.Go(func() { // close the others
					for range dialed {
						if r := <-results; r.conn != nil {
							closeConnection(r.conn)
						}
					}
				})
				return r.conn, r.i, nil
			}
			errs[r.i] = r.err
			failed = append(failed, r.i)
			if dialed == 0 && len(waiting) == 0 {
				return nil, n - 1, errors.Join(errs...)
			}
		case <-time.After(patience):
			if len(waiting) == 0 {
				waiting, failed = failed, nil
			}
		}
	}
}
