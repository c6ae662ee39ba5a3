package millrace

import (
	"context"
	"time"
)

// EventName says what has happened.
type EventName string

// Names of events, with the fields that they have.
const (
	// Started: the switch was started (Version).
	Started EventName = "started"
	// PortUp: frames can pass a port (Port).
	PortUp EventName = "port-up"
	// PortDown: frames cannot pass a port (Port, Reason).
	PortDown EventName = "port-down"
	// GuestConnected: a guest is connected to a port (Port).
	GuestConnected EventName = "guest-connected"
	// GuestDisconnected: the guest of a port has left (Port, Reason).
	GuestDisconnected EventName = "guest-disconnected"
	// MappingChanged: frames are received in another way (From, To, ZeroCopy,
	// Reason).
	MappingChanged EventName = "mapping-changed"
	// MappingRemoved: a queue of a mapping is gone (From, To).
	MappingRemoved EventName = "mapping-removed"
	// Reloaded: the configuration file was applied again (Actions).
	Reloaded EventName = "reloaded"
	// ReloadFailed: it was not, and nothing has changed (Reason).
	ReloadFailed EventName = "reload-failed"
	// PartAdded: a call has added a part (Kind, Part, Actions).
	PartAdded EventName = "part-added"
	// PartChanged: a call has changed a part (Kind, Part, Actions).
	PartChanged EventName = "part-changed"
	// PartRemoved: a call has removed a part (Kind, Part, Actions).
	PartRemoved EventName = "part-removed"
	// WorkerHung: a worker makes no rounds (Worker, Place, Seconds).
	WorkerHung EventName = "worker-hung"
	// WorkerRecovered: it makes rounds again (Worker, Seconds).
	WorkerRecovered EventName = "worker-recovered"
	// AddressLearned: a bridge has learned an address (Bridge, MAC, VLAN, Port).
	AddressLearned EventName = "address-learned"
	// AddressMoved: it is behind another port (Bridge, MAC, VLAN, From, Port).
	AddressMoved EventName = "address-moved"
	// AddressForgotten: a bridge has forgotten it (Bridge, MAC, VLAN, Port).
	AddressForgotten EventName = "address-forgotten"
	// Lost: this client did not get some events (Count).
	Lost EventName = "lost"
)

// Event is an event. Which fields it has depends on its name; newer switches
// have other names, too.
type Event struct {
	// Seq is its number: one more than that of the event before. Events about
	// addresses, and Lost, have that of the last event before them.
	Seq uint64 `json:"seq"`
	// Time is in seconds since the beginning of 1970; see [Event.At].
	Time float64   `json:"time"`
	Name EventName `json:"event"`

	Version string `json:"version"`
	Port    string `json:"port"`
	Reason  string `json:"reason"`

	From     string `json:"from"`
	To       string `json:"to"`
	ZeroCopy bool   `json:"zero_copy"`

	Kind    string   `json:"kind"`
	Part    string   `json:"name"`
	Actions []Action `json:"actions"`

	Worker  int     `json:"worker"`
	Place   string  `json:"place"`
	Seconds float64 `json:"seconds"`

	Bridge string `json:"bridge"`
	MAC    string `json:"mac"`
	VLAN   uint16 `json:"vlan"`

	Count uint64 `json:"count"`
}

// At returns the time of the event.
func (e Event) At() time.Time {
	return time.UnixMicro(int64(e.Time * 1e6))
}

// ListEvents returns the events after the one of this number, or all that the
// switch has kept if it is 0; at most the last ones, if last is not 0.
func (c *Client) ListEvents(ctx context.Context, since uint64, last int) ([]Event, error) {
	params := map[string]any{}
	if since != 0 {
		params["since"] = since
	}
	if last != 0 {
		params["last"] = last
	}
	return call[[]Event](ctx, c, "events.list", params)
}

// FollowOptions say which events to follow.
type FollowOptions struct {
	// Since is the number of the last event that the caller knows: it gets all
	// later ones. 0 for those to come.
	Since uint64 `json:"since,omitempty"`
	// Learned asks for events about addresses that bridges learn, move and
	// forget.
	Learned bool `json:"learned"`
}

// Follower gets the events of a switch.
type Follower struct {
	// Events is closed when the context has ended, or the connection. A program
	// that does not read from it loses events, and gets one of the name Lost
	// with their number.
	Events <-chan Event
	// Since is the number of the newest event when this began: FollowOptions
	// take it, or that of the last event, to go on.
	Since uint64
	err   error
}

// Err returns the reason why Events was closed.
func (f *Follower) Err() error {
	return f.err
}

// Follow follows the events until the context ends.
func (c *Client) Follow(ctx context.Context, options FollowOptions) (*Follower, error) {
	connection, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	var following struct {
		Seq uint64 `json:"seq"`
	}
	if err = connection.call("events.follow", options, &following); err != nil {
		connection.close()
		return nil, err
	}
	if options.Since != 0 {
		following.Seq = options.Since
	}
	events := make(chan Event)
	follower := &Follower{Events: events, Since: following.Seq}
	go func() {
		defer close(events)
		defer connection.close()
		for {
			var message struct {
				Params Event `json:"params"`
			}
			if follower.err = connection.next(&message); follower.err != nil {
				return
			}
			select {
			case events <- message.Params:
			case <-ctx.Done():
				follower.err = ctx.Err()
				return
			}
		}
	}()
	return follower, nil
}
