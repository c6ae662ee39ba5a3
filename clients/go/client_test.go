package millrace

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const bridged = "[[port]]\nname = \"wan\"\ndriver = \"sink\"\nbridge = \"br0\"\n[[bridge]]\nname = \"br0\"\n"

func TestPartsComeAndGo(t *testing.T) {
	millrace, ctx := start(t, bridged), limited(t)
	version, err := millrace.Version(ctx)
	if err != nil || version.Name != "millrace" {
		t.Fatal(version, err)
	}
	keys := Keys{
		"name": "web-0", "driver": "vhost-user", "socket": "web-0.sock", "bridge": "br0",
		"labels": map[string]string{"pod": "ns/web-0"},
	}
	for _, effect := range []string{"added", "unchanged"} {
		change, err := millrace.AddPort(ctx, keys)
		if err != nil || change.Effect != effect || change.Kind != "port" || change.Name != "web-0" {
			t.Fatal(effect, change, err)
		}
	}
	if err := millrace.WaitUntilOpen(ctx, "web-0"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(millrace.home, "web-0.sock")); err != nil {
		t.Fatal(err)
	}
	ports, err := millrace.ListPorts(ctx, map[string]*string{"pod": nil})
	if err != nil || len(ports) != 1 || ports[0].Owner != "api" || ports[0].Labels["pod"] != "ns/web-0" {
		t.Fatal(ports, err)
	}
	if ports, err = millrace.ListPorts(ctx, nil); err != nil || len(ports) != 2 {
		t.Fatal(ports, err)
	}
	if state, err := millrace.PortState(ctx, "x"); err != nil || state != nil {
		t.Fatal(state, err)
	}
	if addresses, err := millrace.Addresses(ctx); err != nil || len(addresses) != 0 {
		t.Fatal(addresses, err)
	}

	refusals := []struct {
		code Code
		call func() (Change, error)
	}{
		{Differs, func() (Change, error) { return millrace.AddPort(ctx, Keys{"name": "web-0", "driver": "sink"}) }},
		{OwnedByFile, func() (Change, error) { return millrace.DelPort(ctx, "wan") }},
		{Absent, func() (Change, error) { return millrace.SetPort(ctx, "x", Settings{Unset: []string{"bridge"}}) }},
		{Reopens, func() (Change, error) {
			return millrace.SetPort(ctx, "web-0", Settings{Keys: Keys{"queues": 2}})
		}},
		{Invalid, func() (Change, error) { return millrace.AddBridge(ctx, Keys{"name": "b", "ports": 1}) }},
	}
	for _, refusal := range refusals {
		_, err := refusal.call()
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != refusal.code || refused.Message == "" {
			t.Errorf("%d: %v", refusal.code, err)
		}
	}
	change, err := millrace.SetPort(ctx, "web-0", Settings{Keys: Keys{"queues": 2}, Reopen: true})
	if err != nil || change.Effect != "changed" || len(change.Actions) == 0 {
		t.Fatal(change, err)
	}
	if change, err = millrace.DelPort(ctx, "web-0"); err != nil || change.Effect != "removed" {
		t.Fatal(change, err)
	}
	if _, err = millrace.AddBridge(ctx, Keys{"name": "br1"}); err != nil {
		t.Fatal(err)
	}
	if _, err = millrace.SetBridge(ctx, "br1", Settings{Keys: Keys{"ageing": 60}}); err != nil {
		t.Fatal(err)
	}
	if _, err = millrace.DelBridge(ctx, "br1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err = millrace.AddPort(ctx, Keys{"name": name, "driver": "sink"}); err != nil {
			t.Fatal(err)
		}
	}
	if change, err = millrace.AddPatch(ctx, "b", "a"); err != nil || change.Name != "a+b" {
		t.Fatal(change, err)
	}
	if change, err = millrace.DelPatch(ctx, "b", "a"); err != nil || change.Effect != "removed" {
		t.Fatal(change, err)
	}
	var workers []map[string]any
	if err = millrace.Call(ctx, "workers", nil, &workers); err != nil || len(workers) != 1 {
		t.Fatal(workers, err)
	}
	if err = millrace.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestEventsAreFollowed(t *testing.T) {
	millrace, ctx := start(t, bridged), limited(t)
	kept, err := millrace.ListEvents(ctx, 0, 0)
	if err != nil || len(kept) < 2 || kept[0].Name != Started || kept[0].Version == "" {
		t.Fatal(kept, err)
	}
	if age := time.Since(kept[0].At()); age < 0 || age > time.Hour {
		t.Fatal(age)
	}
	following, cancel := context.WithCancel(ctx)
	follower, err := millrace.Follow(following, FollowOptions{Learned: true})
	if err != nil || follower.Since != kept[len(kept)-1].Seq {
		t.Fatal(follower, err)
	}
	next := func(name EventName) Event {
		event := <-follower.Events
		for event.Name == WorkerHung || event.Name == WorkerRecovered {
			// The machine is busy.
			event = <-follower.Events
		}
		if event.Name != name {
			t.Fatalf("%+v is not %s", event, name)
		}
		return event
	}
	if _, err = millrace.AddPort(ctx, Keys{"name": "a", "driver": "sink", "bridge": "br0"}); err != nil {
		t.Fatal(err)
	}
	up := next(PortUp)
	if up.Port != "a" {
		t.Fatalf("%+v", up)
	}
	if added := next(PartAdded); added.Kind != "port" || added.Part != "a" || len(added.Actions) == 0 {
		t.Fatalf("%+v", added)
	}
	if err = os.WriteFile(millrace.config, []byte("port = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = millrace.Reload(ctx); err == nil {
		t.Fatal("it was reloaded")
	}
	failed := next(ReloadFailed)
	if !strings.Contains(failed.Reason, "m.toml:1") {
		t.Fatalf("%+v", failed)
	}
	cancel()
	for range follower.Events {
	}
	if !errors.Is(follower.Err(), context.Canceled) {
		t.Fatal(follower.Err())
	}

	// One who comes back goes on where it was.
	if follower, err = millrace.Follow(ctx, FollowOptions{Since: up.Seq}); err != nil {
		t.Fatal(err)
	}
	next(PartAdded)
	if again := next(ReloadFailed); again.Seq != failed.Seq {
		t.Fatalf("%+v", again)
	}
	millrace.stop()
	for range follower.Events {
	}
	if follower.Err() == nil {
		t.Fatal("the switch has ended")
	}
}

func TestContextsEndCalls(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "silent.sock")
	if _, err := New(socket).Version(limited(t)); err == nil || !strings.Contains(err.Error(), "no switch answers") {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err = New(socket).Version(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
