package millrace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sort"
	"time"
)

// Client calls a switch. It has a connection for each call, so that it
// survives a restart of the switch, and any number of goroutines may use it.
type Client struct {
	socket string
}

// New returns a client of the switch whose control socket is at this path.
func New(socket string) *Client {
	return &Client{socket: socket}
}

// Keys are the keys of a section of the configuration file.
type Keys map[string]any

// Version returns the version of the switch.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return call[Version](ctx, c, "version", nil)
}

// AddPort adds a port. If it is there with the same settings, nothing changes.
func (c *Client) AddPort(ctx context.Context, keys Keys) (Change, error) {
	return call[Change](ctx, c, "port.add", added{keys})
}

// SetPort changes settings of a port.
func (c *Client) SetPort(ctx context.Context, name string, settings Settings) (Change, error) {
	return call[Change](ctx, c, "port.set", changed{name, settings})
}

// DelPort removes a port. If it is not there, nothing changes.
func (c *Client) DelPort(ctx context.Context, name string) (Change, error) {
	return call[Change](ctx, c, "port.del", named{name})
}

// ListPorts returns the ports that have all of these labels, each with this
// value, or with any if it is nil.
func (c *Client) ListPorts(ctx context.Context, labels map[string]*string) ([]PortSummary, error) {
	if labels == nil {
		labels = map[string]*string{}
	}
	return call[[]PortSummary](ctx, c, "port.list", map[string]any{"labels": labels})
}

// PortState returns the state of a port, or nil if there is no such port. It
// does not wait for changes that are under way.
func (c *Client) PortState(ctx context.Context, name string) (*PortState, error) {
	return call[*PortState](ctx, c, "port.get", named{name})
}

// WaitUntilOpen waits until peers can connect to a port, or one is connected.
// If that takes longer than the context lasts, the error says why.
func (c *Client) WaitUntilOpen(ctx context.Context, name string) error {
	why := "it was not asked"
	for {
		state, err := c.PortState(ctx, name)
		switch {
		case err == nil && state == nil:
			return fmt.Errorf("there is no port %s", name)
		case err == nil && state.Open:
			return nil
		case err == nil:
			why = state.Detail
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("port %s is not open: %s: %w", name, why, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// AddBridge adds a bridge. Ports name it by their key "bridge".
func (c *Client) AddBridge(ctx context.Context, keys Keys) (Change, error) {
	return call[Change](ctx, c, "bridge.add", added{keys})
}

// SetBridge changes settings of a bridge.
func (c *Client) SetBridge(ctx context.Context, name string, settings Settings) (Change, error) {
	return call[Change](ctx, c, "bridge.set", changed{name, settings})
}

// DelBridge removes a bridge that has no ports.
func (c *Client) DelBridge(ctx context.Context, name string) (Change, error) {
	return call[Change](ctx, c, "bridge.del", named{name})
}

// AddPatch joins two ports.
func (c *Client) AddPatch(ctx context.Context, a, b string) (Change, error) {
	return call[Change](ctx, c, "patch.add", added{Keys{"ports": []string{a, b}}})
}

// DelPatch parts two ports.
func (c *Client) DelPatch(ctx context.Context, a, b string) (Change, error) {
	ports := []string{a, b}
	sort.Strings(ports)
	return call[Change](ctx, c, "patch.del", named{ports[0] + "+" + ports[1]})
}

// Addresses returns the MAC tables of the bridges.
func (c *Client) Addresses(ctx context.Context) ([]Address, error) {
	return call[[]Address](ctx, c, "mac", nil)
}

// Reload has the switch read its configuration file again, and apply it.
func (c *Client) Reload(ctx context.Context) (ReloadReport, error) {
	return call[ReloadReport](ctx, c, "reload", nil)
}

// Shutdown stops the switch.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.Call(ctx, "shutdown", nil, nil)
}

// Call does any call: params become an object of JSON, and the result is
// stored where result points to, unless that is nil.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	connection, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer connection.close()
	return connection.call(method, params, result)
}

func call[R any](ctx context.Context, c *Client, method string, params any) (result R, err error) {
	err = c.Call(ctx, method, params, &result)
	return result, err
}

type added struct {
	Keys Keys `json:"keys"`
}

type changed struct {
	Name string `json:"name"`
	Settings
}

type named struct {
	Name string `json:"name"`
}

// connection is a connection to a switch, which ends with a context.
type connection struct {
	ctx    context.Context
	socket net.Conn
	lines  *bufio.Reader
	done   chan struct{}
}

func (c *Client) connect(ctx context.Context) (*connection, error) {
	socket, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, fmt.Errorf("no switch answers on %s: %w", c.socket, err)
	}
	connected := &connection{ctx, socket, bufio.NewReader(socket), make(chan struct{})}
	go func() {
		select {
		case <-ctx.Done():
			socket.Close()
		case <-connected.done:
		}
	}()
	return connected, nil
}

func (c *connection) close() {
	close(c.done)
	c.socket.Close()
}

// failed returns the error of the context, if that has ended the connection.
func (c *connection) failed(err error) error {
	if c.ctx.Err() != nil {
		err = c.ctx.Err()
	}
	return fmt.Errorf("the switch did not answer: %w", err)
}

func (c *connection) call(method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	request := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
	line, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("parameters of %s: %w", method, err)
	}
	if _, err = c.socket.Write(append(line, '\n')); err != nil {
		return c.failed(err)
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *Error          `json:"error"`
	}
	if err = c.next(&answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	if result == nil {
		return nil
	}
	return understood(json.Unmarshal(answer.Result, result))
}

// next reads the next message.
func (c *connection) next(message any) error {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return c.failed(err)
	}
	return understood(json.Unmarshal(bytes.TrimSpace(line), message))
}

func understood(err error) error {
	if err != nil {
		return fmt.Errorf("the answer is not one of a Millrace switch of this version: %w", err)
	}
	return nil
}
