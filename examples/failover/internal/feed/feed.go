// Package feed is what the experiment and its processes tell each other: lines
// of JSON on standard input and output.
package feed

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Order is an event: what a producer is told to send, and its payload too.
type Order struct {
	N      int           `json:"n"`      // 1, 2, 3 and so on, over all keys
	Key    int           `json:"key"`    // whose events are to stay in order
	Number uint64        `json:"number"` // 1, 2, 3 and so on, of the key
	Due    time.Time     `json:"due"`    // when the event came into being
	Work   time.Duration `json:"work"`   // how long it takes to process
}

// Channel is how an event reached the consumer.
type Channel string

// Channels.
const (
	Broker Channel = "broker"
	HTTP   Channel = "HTTP"   // the backup
	Replay Channel = "replay" // asked for by the consumer
)

// Applied says that the effect of an event was committed.
type Applied struct {
	Order
	Channel Channel   `json:"channel"`
	At      time.Time `json:"at"` // after the commit
}

// Role is what a process is.
type Role string

// Roles.
const (
	PlainProducer    Role = "plain producer"
	PlainConsumer    Role = "plain consumer"
	NumberedProducer Role = "numbered producer"
	NumberedConsumer Role = "numbered consumer"
)

// Config is what a process is told before anything else.
type Config struct {
	Role     Role   `json:"role"`
	Broker   string `json:"broker"` // its URL
	Queue    string `json:"queue"`
	Type     string `json:"type"`     // of the queue: quorum or classic
	Confirms bool   `json:"confirms"` // of a plain producer: wait for the broker's confirmations
	Dir      string `json:"dir"`      // for databases
	Workers  int    `json:"workers"`  // of a consumer
	Peer     string `json:"peer"`     // of numbered ones: the other's URL
	Secret   []byte `json:"secret"`   // of numbered ones: signs the requests
}

// Line is what a process tells: that it is ready, or that an event was applied.
type Line struct {
	Ready   bool     `json:"ready,omitempty"`
	Applied *Applied `json:"applied,omitempty"`
}

// Child is a process's side. Report may be called from any goroutine.
type Child struct {
	Config
	in *json.Decoder

	mu struct { // guards out
		sync.Mutex
		out *json.Encoder
	}
}

// Open reads the configuration.
func Open(r io.Reader, w io.Writer) (*Child, error) {
	c := &Child{in: json.NewDecoder(r)}
	c.mu.out = json.NewEncoder(w)
	if err := c.in.Decode(&c.Config); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return c, nil
}

// Ready tells that the process does its work from now on.
func (c *Child) Ready() error { return c.write(Line{Ready: true}) }

// Report tells of an effect.
func (c *Child) Report(a Applied) error { return c.write(Line{Applied: &a}) }

func (c *Child) write(l Line) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.out.Encode(l)
}

// Next waits for the next order. It returns [io.EOF] when the process is to
// end, also since the experiment has ended itself.
func (c *Child) Next() (o Order, err error) {
	err = c.in.Decode(&o)
	return o, err
}

// Listener is the socket that the process was born with.
func (c *Child) Listener() (net.Listener, error) {
	const first = 3 // after the standard files
	f := os.NewFile(first, "listener")
	defer f.Close()
	return net.FileListener(f)
}
