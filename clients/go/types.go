package millrace

// Version is the version of a program.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Settings are a change of a part.
type Settings struct {
	// Keys get other values.
	Keys Keys `json:"keys,omitempty"`
	// Unset lists keys that get their defaults.
	Unset []string `json:"unset,omitempty"`
	// Reopen allows that ports are opened again for it: their peers have to
	// connect again.
	Reopen bool `json:"reopen"`
}

// Change is what a call has done to a part.
type Change struct {
	// Kind is "port", "bridge" or "patch".
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Effect is "added", "changed", "removed", or "unchanged" if all was as
	// wanted.
	Effect string `json:"effect"`
	// Actions that the change took on this part and on others.
	Actions []Action `json:"actions"`
}

// Action is a step that a change or a reload took.
type Action struct {
	// Subject is the kind of the part, such as "port" or "worker".
	Subject string `json:"subject"`
	Name    string `json:"name"`
	// Step is "added", "removed", "reopened", "changed" or "kept".
	Step string `json:"step"`
	// Why lists the differences that caused the step.
	Why []string `json:"why"`
	// Error is the reason for a failure, if it failed.
	Error string `json:"error,omitempty"`
}

// PortState is the state of a port.
type PortState struct {
	// Up says whether frames can pass.
	Up bool `json:"up"`
	// Open says whether frames can pass, a peer is connected, or peers can
	// connect to the port's socket.
	Open bool `json:"open"`
	// Detail is the state in one line of text.
	Detail string `json:"detail"`
}

// PortSummary is a port without its counters.
type PortSummary struct {
	Name       string `json:"name"`
	Driver     string `json:"driver"`
	Up         bool   `json:"up"`
	Detail     string `json:"detail"`
	Forwarding string `json:"forwarding"`
	// Queues is the number of its queue pairs.
	Queues int `json:"queues"`
	// Owner is "file" or "api".
	Owner      string            `json:"owner"`
	Labels     map[string]string `json:"labels"`
	Recordings []Recording       `json:"recordings"`
	// Offloads are nil if nothing is known of them.
	Offloads *Offloads `json:"offloads"`
}

// Offloads are the work on frames that the peer of a port may leave to the
// switch, and takes over from it.
type Offloads struct {
	// Offered are kinds of work, such as "checksum", and Why is the reason for
	// offering these and no others.
	Offered []string `json:"offered"`
	Why     string   `json:"why"`
	// Frames: from the port with work left, to the port with work left, and to
	// the port whose work the switch did.
	Received  uint64 `json:"received"`
	PassedOn  uint64 `json:"passed_on"`
	Completed uint64 `json:"completed"`
	// Merged are frames to the port that were merged into messages, and
	// Messages is the number of these.
	Merged   uint64 `json:"merged"`
	Messages uint64 `json:"messages"`
}

// Recording is a capture file that frames of a port are recorded to.
type Recording struct {
	File string `json:"file"`
	// Records says whether it takes frames, and State why not.
	Records bool   `json:"records"`
	State   string `json:"state"`
	Written uint64 `json:"written"`
	Waiting uint64 `json:"waiting"`
	// Lost frames, by reason.
	Lost map[string]uint64 `json:"lost"`
}

// Address is an entry of a bridge's MAC table.
type Address struct {
	Bridge string `json:"bridge"`
	MAC    string `json:"mac"`
	// VLAN it was learned in; 0 without VLANs.
	VLAN uint16 `json:"vlan"`
	// Port that leads to it.
	Port string `json:"port"`
	// AgeSeconds since it was last seen; nil for static entries.
	AgeSeconds *uint64 `json:"age_seconds"`
}

// ReloadReport is the outcome of a reload.
type ReloadReport struct {
	// Actions taken for every part of the switch, including those kept.
	Actions []Action `json:"actions"`
	// NeedsRestart lists sections that changed but take effect at the next
	// start only.
	NeedsRestart []string `json:"needs_restart"`
	Warnings     []string `json:"warnings"`
	// Sockets that others had removed.
	Sockets []Mended `json:"sockets"`
}

// Mended is a socket of the switch's own that others had removed.
type Mended struct {
	Path string `json:"path"`
	// Error that kept it from being made again.
	Error string `json:"error,omitempty"`
}
