// Queues: each stands on the queue of the same number of the device below.

#include <stdio.h>

#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "net_paflow.h"

// Buffers to join in that each thread keeps for itself, and those of bursts beside the ones that the device below has.
#define CACHE 64
#define SPARE (2 * PAFLOW_BURST + 2 * CACHE)

// Returns the size of a buffer for the longest frame: with an Ethernet header and a tag.
static uint16_t buffer_size(const struct device *device)
{
    return (uint16_t)(RTE_PKTMBUF_HEADROOM + RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN + paflow_rules_mtu(device->rules));
}

int receive_setup(struct rte_eth_dev *dev, uint16_t number, uint16_t size, unsigned int socket,
                  const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
    const struct device *device = dev->data->dev_private;
    struct rte_eth_rxconf below = *conf;
    // Those of the port apply to all queues.
    below.offloads = 0;
    if (pool == NULL) {
        LOG(ERR, "%s: receive queue %u has several pools: give it one", dev->data->name, number);
        return -ENOTSUP;
    }
    int failed = rte_eth_rx_queue_setup(device->below, number, size, socket, &below, pool);
    if (failed)
        return failed;
    struct receive_queue *queue = rte_zmalloc_socket("paflow rx", sizeof *queue, RTE_CACHE_LINE_SIZE, (int)socket);
    if (queue == NULL)
        return -ENOMEM;
    queue->rules = device->rules;
    queue->pool = pool;
    queue->below = device->below;
    queue->own = dev->data->port_id;
    queue->number = number;
    queue->checks = conf->offloads & CHECKSUMS;
    dev->data->rx_queues[number] = queue;
    return 0;
}

void receive_release(struct rte_eth_dev *dev, uint16_t number)
{
    struct receive_queue *queue = dev->data->rx_queues[number];
    if (queue != NULL)
        receive_forget(queue);
    rte_free(queue);
    dev->data->rx_queues[number] = NULL;
}

// Returns the buffers of a transmit queue, at least as many as `count`, after the device below has given back those that it had.
static struct rte_mempool *pool_of(struct rte_eth_dev *dev, uint16_t number, unsigned int count, unsigned int socket)
{
    struct device *device = dev->data->dev_private;
    struct rte_mempool **pool = &device->pools[number];
    if (*pool != NULL && (*pool)->size >= count)
        return *pool;
    rte_mempool_free(*pool);
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof name, "paflow_%u_%u", dev->data->port_id, number);
    *pool = rte_pktmbuf_pool_create(name, count, CACHE, 0, buffer_size(device), (int)socket);
    if (*pool == NULL)
        LOG(ERR, "%s: there is no memory for %u buffers to join packets in: give the application more (-m)", dev->data->name,
            count);
    return *pool;
}

// Frees the buffers of all transmit queues.
void pools_free(struct device *device)
{
    for (unsigned int number = 0; number < RTE_DIM(device->pools); number++)
        rte_mempool_free(device->pools[number]);
}

int transmit_setup(struct rte_eth_dev *dev, uint16_t number, uint16_t size, unsigned int socket,
                   const struct rte_eth_txconf *conf)
{
    const struct device *device = dev->data->dev_private;
    struct rte_eth_txconf below = *conf;
    below.offloads = 0;
    int failed = rte_eth_tx_queue_setup(device->below, number, size, socket, &below);
    if (failed)
        return failed;
    struct rte_mempool *pool = pool_of(dev, number, size + SPARE, socket);
    struct transmit_queue *queue = rte_zmalloc_socket("paflow tx", sizeof *queue, RTE_CACHE_LINE_SIZE, (int)socket);
    if (pool == NULL || queue == NULL) {
        rte_free(queue);
        return -ENOMEM;
    }
    queue->pool = pool;
    queue->join = paflow_join_new();
    queue->rules = device->rules;
    queue->below = device->below;
    queue->number = number;
    dev->data->tx_queues[number] = queue;
    return 0;
}

void transmit_release(struct rte_eth_dev *dev, uint16_t number)
{
    struct transmit_queue *queue = dev->data->tx_queues[number];
    if (queue != NULL)
        paflow_join_free(queue->join);
    rte_free(queue);
    dev->data->tx_queues[number] = NULL;
}
