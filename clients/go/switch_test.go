package millrace

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soon is far longer than anything here takes.
const soon = time.Minute

// program returns the path of the millrace to test with.
func program(t *testing.T) string {
	path := os.Getenv("MILLRACE")
	if path == "" {
		t.Fatal("set MILLRACE to the path of a millrace, such as target/debug/millrace")
	}
	return path
}

// running is a switch that runs for a test.
type running struct {
	*Client
	home   string
	config string
	stop   func()
}

// start starts a switch with these sections, and waits until it answers.
func start(t *testing.T, sections string) *running {
	home := t.TempDir()
	config, socket := filepath.Join(home, "m.toml"), filepath.Join(home, "c.sock")
	text := "[control]\nsocket = \"c.sock\"\n[confinement]\nenabled = false\n[[worker]]\nidle = \"sleep\"\n" + sections
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program(t), "run", "--config", config)
	var said strings.Builder
	command.Stderr = &said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			command.Process.Signal(syscall.SIGTERM)
			if err := command.Wait(); err != nil {
				t.Errorf("the switch: %v\n%s", err, said.String())
			}
		}
	}
	t.Cleanup(stop)
	client := New(socket)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, err := client.Version(context.Background())
		if err == nil {
			return &running{client, home, config, stop}
		}
		if time.Since(began) > soon {
			t.Fatalf("%v\n%s", err, said.String())
		}
	}
}

// limited returns a context that ends a test that waits in vain.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	t.Cleanup(cancel)
	return ctx
}
