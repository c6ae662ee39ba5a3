// Transmit queues are set up.

#include <stdlib.h>

#include <rte_errno.h>

#include "transmit.h"

// Shorter frames make some NICs stop.
#define SHORTEST 17

static int prepare(struct mr_transmit *transmit, const struct mr_config *config, struct mr_sizes *sizes, char *error)
{
    struct rte_eth_dev_info info;
    int failed = rte_eth_dev_info_get(transmit->port, &info);
    uint16_t ring = config->transmit_size;
    if (failed == 0)
        failed = rte_eth_dev_adjust_nb_rx_tx_desc(transmit->port, NULL, &ring);
    if (failed)
        return fail(error, failed, "%s has no transmit ring of %u: %s", port_name(transmit->port), ring, rte_strerror(-failed));
    uint32_t capacity = rte_align32pow2(RTE_MAX(4u * ring, 1024u));
    transmit->registers = driver_registers(&info);
    transmit->ring = ring;
    transmit->shortest = SHORTEST;
    transmit->longest = device_frame(transmit->port, MOST_TAGS);
    transmit->pieces = 1;
    if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
        transmit->pieces = info.tx_desc_lim.nb_mtu_seg_max == 0 ? UINT16_MAX : info.tx_desc_lim.nb_mtu_seg_max;
    // Two fit the ring.
    transmit->message = ring / 2u;
    if (info.tx_desc_lim.nb_seg_max != 0)
        transmit->message = RTE_MIN(transmit->message, (uint32_t)info.tx_desc_lim.nb_seg_max);
    transmit->header = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM ? RTE_MBUF_F_TX_IP_CKSUM : 0;
    transmit->mask = capacity - 1;
    transmit->ids = calloc(capacity, sizeof *transmit->ids);
    if (transmit->ids == NULL)
        return fail(error, -ENOMEM, "there is no memory for a transmit queue");
    *sizes = (struct mr_sizes){.ring = ring, .capacity = capacity, .pieces = transmit->message};
    return 0;
}

int transmit_open(uint16_t port, uint16_t queue, const struct mr_config *config, struct mr_transmit **opened, struct mr_sizes *sizes,
                  char *error)
{
    said_forget();
    struct mr_transmit *transmit = calloc(1, sizeof *transmit);
    if (transmit == NULL)
        return fail(error, -ENOMEM, "there is no memory for a transmit queue");
    transmit->port = port;
    transmit->queue = queue;
    int failed = prepare(transmit, config, sizes, error);
    if (failed) {
        free(transmit->ids);
        free(transmit);
        return failed;
    }
    *opened = transmit;
    return 0;
}

// The device gives back what it has of the pool of before when its queue is set up again.
int transmit_setup(struct mr_transmit *transmit, char *error)
{
    said_forget();
    uint16_t port = transmit->port;
    int failed = rte_eth_tx_queue_setup(port, transmit->queue, transmit->ring, (unsigned int)rte_eth_dev_socket_id(port), NULL);
    if (failed)
        return fail(error, failed, "%s: transmit queue %u can't be set up: %s", port_name(port), transmit->queue,
                    rte_strerror(-failed));
    transmit_drain(transmit);
    struct pool before = transmit->pool;
    uint32_t kept = before.size - before.count;
    if (kept > 0)
        return fail(error, -EBUSY, "%s: transmit queue %u can't be set up again, as the device keeps %u frames", port_name(port),
                    transmit->queue, kept);
    failed = pool_open(&transmit->pool, TRANSMIT_OPS, transmit, transmit->mask + 1, 0,
                       transmit->registers ? &transmit->regions : NULL, error);
    if (failed) {
        transmit->pool = before;
        return failed;
    }
    transmit->regions.known = transmit->regions.count;
    pool_close(&before);
    return 0;
}

// What a driver has kept, it may still send: then the pool stays.
void transmit_close(struct mr_transmit *transmit)
{
    transmit_drain(transmit);
    if (transmit->pool.count < transmit->pool.size)
        return;
    pool_close(&transmit->pool);
    free(transmit->ids);
    free(transmit);
}

int transmit_region(struct mr_transmit *transmit, const struct mr_region *region, char *error)
{
    return regions_add(&transmit->regions, region, !transmit->registers || transmit->pool.mempool == NULL, error);
}

void transmit_forget(struct mr_transmit *transmit, const struct mr_region *region)
{
    regions_remove(&transmit->regions, region);
}

uint32_t transmit_within(struct mr_transmit *transmit, const struct mr_region *region)
{
    transmit_drain(transmit);
    return pool_within(&transmit->pool, region);
}

uint32_t transmit_out(const struct mr_transmit *transmit)
{
    return __atomic_load_n(&transmit->out, __ATOMIC_RELAXED);
}

struct mr_counts transmit_counts(const struct mr_transmit *transmit)
{
    return (struct mr_counts){
        .frames = __atomic_load_n(&transmit->counts.frames, __ATOMIC_RELAXED),
        .dropped = __atomic_load_n(&transmit->counts.dropped, __ATOMIC_RELAXED),
    };
}
