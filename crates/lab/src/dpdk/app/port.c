#define _GNU_SOURCE // For sched_getaffinity.
#include "port.h"

#include "control.h"
#include "headers.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

// Buffers that each processor keeps at hand.
#define CACHE 256

static struct rte_mempool *pool;

// Writes the option that runs everything in one thread, on the given processor or on any that it may use.
static void write_lcores(char *text, size_t size, int cpu)
{
    if (cpu >= 0) {
        snprintf(text, size, "0@%d", cpu);
        return;
    }
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all))
        fail("the kernel does not tell the processors of this process");
    size_t end = (size_t)snprintf(text, size, "0@(");
    for (int at = 0; at < CPU_SETSIZE && end < size; at++)
        if (CPU_ISSET(at, &all))
            end += (size_t)snprintf(text + end, size - end, "%s%d", text[end - 1] == '(' ? "" : ",", at);
    if (end + 1 >= size)
        fail("this process may run on too many processors: choose one with --cpu");
    snprintf(text + end, size - end, ")");
}

void ports_start(int argc, char **argv, const struct options *options)
{
    static char lcores[4096], devices[MAX_PORTS][512];
    char **all = calloc((size_t)argc + 3 + 2 * options->port_count, sizeof *all);
    if (!all)
        fail("no memory");
    for (int at = 0; at < argc; at++)
        all[at] = argv[at];
    write_lcores(lcores, sizeof lcores, options->cpu);
    all[argc++] = "--lcores";
    all[argc++] = lcores;
    for (unsigned at = 0; at < options->port_count; at++) {
        const char *form = "net_virtio_user%u,path=%s,mac=02:00:00:00:20:%02x,queues=1,queue_size=%u,packed_vq=%u,"
                           "mrg_rxbuf=1,in_order=1";
        int length = snprintf(devices[at], sizeof *devices, form, at, options->ports[at], number_of(options, at),
                              options->queue_size, options->packed);
        if (length >= (int)sizeof *devices)
            fail("%s: the path is too long for a socket", options->ports[at]);
        all[argc++] = "--vdev";
        all[argc++] = devices[at];
    }
    if (rte_eal_init(argc, all) < 0)
        fail("DPDK does not start: %s; the lines above say more", rte_strerror(rte_errno));
}

static void must(int result, const struct port *port, const char *action)
{
    if (result < 0)
        fail("%s: %s: %s", port->socket, action, rte_strerror(-result));
}

static void port_open(struct port *port, unsigned at, uint16_t queue_size)
{
    char name[32];
    snprintf(name, sizeof name, "net_virtio_user%u", at);
    if (rte_eth_dev_get_port_by_name(name, &port->id))
        fail("%s: DPDK can't open it; does a switch listen there?", port->socket);
    const struct rte_eth_conf conf = {0};
    must(rte_eth_dev_configure(port->id, 1, 1, &conf), port, "configuring it");
    must(rte_eth_rx_queue_setup(port->id, 0, queue_size, SOCKET_ID_ANY, NULL, pool), port, "receive queue");
    must(rte_eth_tx_queue_setup(port->id, 0, queue_size, SOCKET_ID_ANY, NULL), port, "transmit queue");
    must(rte_eth_dev_start(port->id), port, "starting it");
}

void ports_open(struct port *ports, const struct options *options)
{
    // Both queues may be full, with a burst prepared and one being read.
    unsigned count = options->port_count * 2 * (options->queue_size + MAX_BURST) + 2 * CACHE;
    pool = rte_pktmbuf_pool_create("packets", count, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (!pool)
        fail("no memory for %u packets: %s; give DPDK more with -m", count, rte_strerror(rte_errno));
    for (unsigned at = 0; at < options->port_count; at++) {
        ports[at] = (struct port){.socket = options->ports[at], .number = number_of(options, at)};
        port_open(&ports[at], at, options->queue_size);
    }
}

void ports_close(const struct port *ports, unsigned count)
{
    for (unsigned at = 0; at < count; at++) {
        rte_eth_dev_stop(ports[at].id);
        rte_eth_dev_close(ports[at].id);
    }
}

bool buffers_take(struct rte_mbuf **buffers, unsigned count)
{
    return rte_pktmbuf_alloc_bulk(pool, buffers, count) == 0;
}
