// A server's port: returns each packet of its peer. Packets are counted as by a sink, which reads only the stamp.
#pragma once

#include "sink.h"

// Creates the reflector at a port.
void reflector_start(struct sink *reflector, const struct port *port);

// Receives a burst and returns it, and reports whether there was any. Packets without room are lost.
bool reflector_turn(struct sink *reflector, struct loop *loop);
