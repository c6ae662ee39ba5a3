// Ports: one queue each way of a virtio_user device, and the packet buffers of all of them.
#pragma once

#include "options.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

struct port {
    const char *socket;
    uint16_t id;    // DPDK's number of it.
    uint8_t number; // Of its endpoint; the peer of an even one is the next one.
};

// Starts DPDK with these arguments and those that follow from the options: the processor and a device for each port.
void ports_start(int argc, char **argv, const struct options *options);

// Creates the buffers, and opens all ports.
void ports_open(struct port *ports, const struct options *options);

// Closes all ports.
void ports_close(const struct port *ports, unsigned count);

// Takes `count` buffers; reports whether there were as many.
bool buffers_take(struct rte_mbuf **buffers, unsigned count);

static inline uint8_t peer_of(uint8_t number)
{
    return number ^ 1;
}
