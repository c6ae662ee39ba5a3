// The receiving end of a flow: checks and counts packets, and measures how long they took.
#pragma once

#include "headers.h"
#include "histogram.h"
#include "loop.h"
#include "port.h"
#include "sequence.h"

struct sink {
    const struct port *port;
    uint8_t flow;              // Number of the flow's sender.
    enum touch touch;
    struct template expected;  // Headers as the peer sends them.
    bool heard;                // Whether a packet has come.
    uint64_t last;             // When a burst came last, in cycles of the running thread.
    enum phase phase;          // The latest one that a packet belonged to.
    struct sequence sequence;
    struct received {
        uint64_t packets, bytes, duplicates, reordered, changed;
    } received;                // Measured packets.
    struct histogram times;    // Their times, in cycles.
};

// Creates the sink of flow `flow` at a port.
void sink_start(struct sink *sink, const struct port *port, uint8_t flow, enum touch touch);

// Receives a burst, and reports whether there was any; frames that are not of the flow are skipped.
bool sink_turn(struct sink *sink, struct loop *loop);

// Checks and counts one frame that came now; reports whether it is of the flow.
bool sink_take(struct sink *sink, const struct rte_mbuf *frame, uint64_t now);
