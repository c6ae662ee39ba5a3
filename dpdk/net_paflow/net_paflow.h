// A device that is stacked on another one: it splits the aggregates that come from there, and joins packets that go there, so that
// the application sees single packets. docs/aggregation.md explains its use.
//
// As with any device, a queue is used by one thread at a time. Its receive and transmit queues have nothing in common.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <ethdev_driver.h>
#include <rte_ether.h>
#include <rte_log.h>
#include <rte_mbuf.h>

#include "paflow.h"

// Frames that are taken from the device below at a time: some drivers return nothing to a caller that takes fewer.
#define FRAMES 32

extern int paflow_logtype;

#define LOG(level, format, ...) rte_log(RTE_LOG_##level, paflow_logtype, "net_paflow: " format "\n", __VA_ARGS__)

// The device.
struct device {
    // The device below, which this one owns.
    uint16_t below;
    struct rte_eth_dev_owner owner;
    struct paflow_rules *rules;
    struct rte_ether_addr mac;
    // By transmit queue: buffers to join in. The device below has some of them until it is set up again, or closed.
    struct rte_mempool *pools[RTE_MAX_QUEUES_PER_PORT];
};

// Counters have one writer, and readers that may see them a little later.
struct receive_counters {
    uint64_t packets, bytes;
    // Frames from the device below, those of them that were aggregates, and the packets in these.
    uint64_t frames, aggregates, split;
    // Packets of aggregates that were dropped: no buffer was free, they were longer than one, or their senders would not understand a
    // router's mark.
    uint64_t no_buffers, too_long, congested;
    // Frames that were dropped, by the number of the reason.
    uint64_t dropped[PAFLOW_REASONS + 1];
};

struct transmit_counters {
    uint64_t packets, bytes;
    // Frames to the device below, those of them that are aggregates, and the packets in these.
    uint64_t frames, aggregates, joined;
    // Packets that were sent alone, as no buffer was free to join them in.
    uint64_t no_buffers;
    // Packets that were dropped, as their service chain has no flow; and on their way to a next hop behind routers, as they fit no
    // frame, or as no buffer was free.
    uint64_t unknown_chain, too_long, dropped_no_buffers;
};

struct receive_queue {
    const struct paflow_rules *rules;
    struct rte_mempool *pool;
    uint16_t below, own, number;
    // Whether the application wants to know of checksums.
    bool checks;
    // Frames from the device below, of which those before `next_frame` are done.
    uint16_t frame_count, next_frame;
    struct rte_mbuf *frames[FRAMES];
    // The aggregate that is being split, its bytes, and its packets, of which those before `next_piece` are delivered.
    struct rte_mbuf *aggregate;
    const uint8_t *bytes;
    uint16_t piece_count, next_piece;
    // Whether a router has marked the aggregate.
    uint8_t congested;
    struct paflow_piece pieces[PAFLOW_MOST];
    struct receive_counters counters;
    // The bytes of a frame in several buffers.
    uint8_t gathered[PAFLOW_LONGEST];
};

struct transmit_queue {
    const struct paflow_rules *rules;
    struct paflow_join *join;
    // Buffers to join in.
    struct rte_mempool *pool;
    uint16_t below, number;
    struct transmit_counters counters;
    // The burst that is being sent.
    struct paflow_packet packets[PAFLOW_BURST];
    uint16_t order[PAFLOW_BURST];
    struct paflow_group groups[PAFLOW_BURST];
    struct rte_mbuf *frames[PAFLOW_BURST];
    // By frame: its packets, as a part of the order.
    struct part {
        uint16_t first, count;
        bool joined;
    } parts[PAFLOW_BURST];
};

// Offloads that do not depend on the content of a frame: the device below has them.
#define RECEIVE_OFFLOADS RTE_ETH_RX_OFFLOAD_SCATTER
#define TRANSMIT_OFFLOADS RTE_ETH_TX_OFFLOAD_MULTI_SEGS

// Offloads that this device has.
#define CHECKSUMS (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM)

extern const struct eth_dev_ops device_ops;

// checksums.c
uint64_t checksum_flags(const struct rte_mbuf *packet);

// receive.c
uint16_t receive(void *queue, struct rte_mbuf **packets, uint16_t room);
void receive_forget(struct receive_queue *queue);

// transmit.c
uint16_t transmit(void *queue, struct rte_mbuf **packets, uint16_t count);

// queues.c
int receive_setup(struct rte_eth_dev *dev, uint16_t number, uint16_t size, unsigned int socket,
                  const struct rte_eth_rxconf *conf, struct rte_mempool *pool);
int transmit_setup(struct rte_eth_dev *dev, uint16_t number, uint16_t size, unsigned int socket,
                   const struct rte_eth_txconf *conf);
void receive_release(struct rte_eth_dev *dev, uint16_t number);
void transmit_release(struct rte_eth_dev *dev, uint16_t number);
void pools_free(struct device *device);

// counters.c
int counters_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats);
int counters_reset(struct rte_eth_dev *dev);
int counters_named(struct rte_eth_dev *dev, struct rte_eth_xstat *values, unsigned int room);
int counters_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names, unsigned int room);
