package millrace

import "fmt"

// Code says why the switch refused a call. Codes stay the same from version to
// version.
type Code int

// Codes of refusals. In all cases nothing has changed.
const (
	// Refused: the switch could not do it; the message says why.
	Refused Code = -32000
	// OwnedByFile: the configuration file has this part: only a change of the
	// file changes it.
	OwnedByFile Code = -32001
	// Differs: there is a part of this name, with other settings.
	Differs Code = -32002
	// Invalid: the settings are wrong, or do not fit the other parts.
	Invalid Code = -32003
	// InUse: other parts need this one.
	InUse Code = -32004
	// Absent: there is no such part.
	Absent Code = -32005
	// NotKept: the part could not be written to the directory that keeps it, or
	// removed there.
	NotKept Code = -32006
	// Reopens: the change would open a port again, which was not allowed.
	Reopens Code = -32007
	// NotApplied: the switch did not take the change, as a worker does not
	// respond.
	NotApplied Code = -32008
	// MethodNotFound: a switch of another version does not have this call.
	MethodNotFound Code = -32601
	// InvalidParams: the call does not take these parameters.
	InvalidParams Code = -32602
)

// Error is the answer to a call that the switch refuses; errors.As finds it.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("the switch refused: %s", e.Message)
}
