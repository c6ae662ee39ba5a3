// Counters of the device, which are of packets, and named ones of frames and drops.

#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>

#include "net_paflow.h"

static struct receive_counters received(const struct rte_eth_dev *dev)
{
    struct receive_counters sum = {0};
    for (uint16_t number = 0; number < dev->data->nb_rx_queues; number++) {
        const struct receive_queue *queue = dev->data->rx_queues[number];
        if (queue == NULL)
            continue;
        const struct receive_counters *one = &queue->counters;
        sum.packets += one->packets;
        sum.bytes += one->bytes;
        sum.frames += one->frames;
        sum.aggregates += one->aggregates;
        sum.split += one->split;
        sum.no_buffers += one->no_buffers;
        sum.too_long += one->too_long;
        sum.congested += one->congested;
        for (int reason = 1; reason <= PAFLOW_REASONS; reason++)
            sum.dropped[reason] += one->dropped[reason];
    }
    return sum;
}

static struct transmit_counters transmitted(const struct rte_eth_dev *dev)
{
    struct transmit_counters sum = {0};
    for (uint16_t number = 0; number < dev->data->nb_tx_queues; number++) {
        const struct transmit_queue *queue = dev->data->tx_queues[number];
        if (queue == NULL)
            continue;
        const struct transmit_counters *one = &queue->counters;
        sum.packets += one->packets;
        sum.bytes += one->bytes;
        sum.frames += one->frames;
        sum.aggregates += one->aggregates;
        sum.joined += one->joined;
        sum.no_buffers += one->no_buffers;
        sum.unknown_chain += one->unknown_chain;
        sum.too_long += one->too_long;
        sum.dropped_no_buffers += one->dropped_no_buffers;
    }
    return sum;
}

int counters_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
    const struct device *device = dev->data->dev_private;
    struct rte_eth_stats below;
    int failed = rte_eth_stats_get(device->below, &below);
    if (failed)
        return failed;
    struct receive_counters in = received(dev);
    struct transmit_counters out = transmitted(dev);
    stats->ipackets = in.packets;
    stats->ibytes = in.bytes;
    stats->opackets = out.packets;
    stats->obytes = out.bytes;
    stats->imissed = below.imissed;
    stats->ierrors = below.ierrors + in.too_long + in.congested;
    stats->oerrors = below.oerrors + out.unknown_chain + out.too_long + out.dropped_no_buffers;
    for (int reason = 1; reason <= PAFLOW_REASONS; reason++)
        stats->ierrors += in.dropped[reason];
    // The layer above has counted in this field, for this device.
    stats->rx_nombuf += below.rx_nombuf + in.no_buffers;
    for (uint16_t number = 0; number < RTE_MIN(dev->data->nb_rx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS); number++) {
        const struct receive_queue *queue = dev->data->rx_queues[number];
        stats->q_ipackets[number] = queue == NULL ? 0 : queue->counters.packets;
        stats->q_ibytes[number] = queue == NULL ? 0 : queue->counters.bytes;
    }
    for (uint16_t number = 0; number < RTE_MIN(dev->data->nb_tx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS); number++) {
        const struct transmit_queue *queue = dev->data->tx_queues[number];
        stats->q_opackets[number] = queue == NULL ? 0 : queue->counters.packets;
        stats->q_obytes[number] = queue == NULL ? 0 : queue->counters.bytes;
    }
    return 0;
}

int counters_reset(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    for (uint16_t number = 0; number < dev->data->nb_rx_queues; number++) {
        struct receive_queue *queue = dev->data->rx_queues[number];
        if (queue != NULL)
            memset(&queue->counters, 0, sizeof queue->counters);
    }
    for (uint16_t number = 0; number < dev->data->nb_tx_queues; number++) {
        struct transmit_queue *queue = dev->data->tx_queues[number];
        if (queue != NULL)
            memset(&queue->counters, 0, sizeof queue->counters);
    }
    return rte_eth_stats_reset(device->below);
}

// A named counter.
struct named {
    char name[RTE_ETH_XSTATS_NAME_SIZE];
    uint64_t value;
};

#define NAMED (13 + PAFLOW_REASONS)

static void named(const struct rte_eth_dev *dev, struct named all[NAMED])
{
    struct receive_counters in = received(dev);
    struct transmit_counters out = transmitted(dev);
    struct named first[NAMED] = {
        {"rx_frames", in.frames},
        {"rx_aggregates", in.aggregates},
        {"rx_split", in.split},
        {"rx_dropped_no-buffers", in.no_buffers},
        {"rx_dropped_too-long", in.too_long},
        {"rx_dropped_congested", in.congested},
        {"tx_frames", out.frames},
        {"tx_aggregates", out.aggregates},
        {"tx_joined", out.joined},
        {"tx_alone_no-buffers", out.no_buffers},
        {"tx_dropped_unknown-chain", out.unknown_chain},
        {"tx_dropped_too-long", out.too_long},
        {"tx_dropped_no-buffers", out.dropped_no_buffers},
    };
    memcpy(all, first, sizeof first);
    for (int reason = 1; reason <= PAFLOW_REASONS; reason++) {
        struct named *one = &all[NAMED - PAFLOW_REASONS + reason - 1];
        snprintf(one->name, sizeof one->name, "rx_dropped_%s", paflow_reason(reason));
        one->value = in.dropped[reason];
    }
}

int counters_named(struct rte_eth_dev *dev, struct rte_eth_xstat *values, unsigned int room)
{
    if (values == NULL || room < NAMED)
        return NAMED;
    struct named all[NAMED];
    named(dev, all);
    for (unsigned int i = 0; i < NAMED; i++)
        values[i] = (struct rte_eth_xstat){.id = i, .value = all[i].value};
    return NAMED;
}

int counters_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names, unsigned int room)
{
    if (names == NULL || room < NAMED)
        return NAMED;
    struct named all[NAMED];
    named(dev, all);
    for (unsigned int i = 0; i < NAMED; i++)
        memcpy(names[i].name, all[i].name, sizeof names[i].name);
    return NAMED;
}
