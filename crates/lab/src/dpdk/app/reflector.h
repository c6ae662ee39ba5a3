// A server's port: returns each packet of its peer. What comes is counted as by a sink, which reads the stamp alone.
#pragma once

#include "sink.h"

// Creates the reflector at a port.
void reflector_start(struct sink *reflector, const struct port *port);

// Receives a burst and returns it, and reports whether there was any. What there is no room for is lost.
bool reflector_turn(struct sink *reflector, struct loop *loop);
