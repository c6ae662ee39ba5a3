// The sending end of a flow.
#pragma once

#include "headers.h"
#include "loop.h"
#include "pace.h"
#include "port.h"
#include "sink.h"

struct source {
    const struct port *port;
    struct template headers;
    const struct sink *back;   // Where its packets arrive, if that is in this process.
    uint64_t next;             // Number of the next packet.
    uint64_t settled;          // Packets before this one do not count as in flight: they came, or were given up.
    struct pace pace;
    uint64_t begin;            // When the pace began, in cycles of the running thread.
    unsigned ready;
    struct rte_mbuf *burst[MAX_BURST]; // Packets from `next` on that are prepared, and that the port had no room for.
    struct sent {
        uint64_t packets, bytes, refused;
    } sent;                    // Measured packets.
};

// Creates the source of a port's flow.
void source_start(struct source *source, const struct port *port, const struct sink *back);

// Begins to send at its rate. Packets from before do not count as in flight.
void source_begin(struct source *source, const struct loop *loop);

// Sends a burst if it is due, and reports whether there was anything to do.
bool source_turn(struct source *source, struct loop *loop);

// Sends `count` packets now, at most a burst; returns how many the port took.
unsigned source_send(struct source *source, unsigned count, struct loop *loop);

// Sends a frame without a stamp, from which switches learn where the port is.
void announce(const struct port *port);
