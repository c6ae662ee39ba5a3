// Package millrace is a client of a running Millrace, at its control socket.
//
// A [Client] adds ports, bridges and patches, changes and removes them, and
// follows what happens to the switch:
//
//	client := millrace.New("/run/millrace.sock")
//	_, err := client.AddPort(ctx, millrace.Keys{
//		"name":   "web-0",
//		"driver": "vhost-user",
//		"socket": "/run/pods/web-0.sock",
//		"bridge": "br0",
//		"labels": map[string]string{"pod": "ns/web-0"},
//	})
//	if err == nil {
//		err = client.WaitUntilOpen(ctx, "web-0")
//	}
//
// Keys are those of the configuration file. A call that the switch refuses
// returns an [*Error], whose code stays the same from version to version.
// docs/api.md lists all calls; [Client.Call] does those that have no method
// of their own.
package millrace
