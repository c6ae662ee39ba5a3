// Receive queues are set up, started and stopped.

#include <stdlib.h>

#include <rte_errno.h>

#include "receive.h"

// Bytes that the device may write to a buffer, or that it needs.
static uint32_t least(const struct driver *driver, const struct rte_eth_dev_info *info, uint16_t port, uint32_t room)
{
    if (driver->obeys_length)
        return RTE_MAX(info->min_rx_bufsize, 64u);
    return driver->tags == 0 ? room : RTE_MIN(device_frame(port, driver->tags), room);
}

static int prepare(struct mr_receive *receive, const struct mr_config *config, struct mr_sizes *sizes, char *error)
{
    struct rte_eth_dev_info info;
    int failed = rte_eth_dev_info_get(receive->port, &info);
    uint16_t ring = config->receive_size;
    if (failed == 0)
        failed = rte_eth_dev_adjust_nb_rx_tx_desc(receive->port, &ring, NULL);
    if (failed)
        return fail(error, failed, "%s has no receive ring of %u: %s", port_name(receive->port), ring, rte_strerror(-failed));
    const struct driver *driver = driver_of(info.driver_name);
    receive->registers = driver_registers(&info);
    receive->ring = ring;
    receive->room = config->room;
    bool is_cut = device_frame(receive->port, MOST_TAGS) > config->room;
    bool writes = driver->writes_headroom || (is_cut && !driver->cuts);
    receive->start = writes || receive->registers ? RTE_PKTMBUF_HEADROOM : HEADER;
    receive->writes_headroom = writes;
    receive->least = least(driver, &info, receive->port, config->room);
    receive->capacity = rte_align32pow2(RTE_MAX(4u * ring, 1024u));
    if (lent_open(&receive->guest, receive->capacity) != 0 || lent_open(&receive->own, receive->capacity) != 0)
        return fail(error, -ENOMEM, "there is no memory for a receive queue");
    *sizes = (struct mr_sizes){
        .ring = ring,
        .capacity = receive->capacity,
        .least = receive->least,
        // A full ring, and the most that is asked for at once.
        .idle = driver->keeps_ring ? ring - 1u : 0,
        .reserve = (driver->takes_many ? 2u * ring : ring) + 2 * BURST,
    };
    return 0;
}

int receive_open(uint16_t port, uint16_t queue, const struct mr_config *config, struct mr_receive **opened, struct mr_sizes *sizes,
                 char *error)
{
    said_forget();
    struct mr_receive *receive = calloc(1, sizeof *receive);
    if (receive == NULL)
        return fail(error, -ENOMEM, "there is no memory for a receive queue");
    receive->port = port;
    receive->queue = queue;
    int failed = prepare(receive, config, sizes, error);
    if (failed) {
        lent_close(&receive->guest);
        lent_close(&receive->own);
        free(receive);
        return failed;
    }
    *opened = receive;
    return 0;
}

// The device lets go of the pool of before when its queue is set up with another one.
int receive_setup(struct mr_receive *receive, char *error)
{
    said_forget();
    uint16_t port = receive->port;
    struct pool before = receive->pool;
    uint32_t kept = before.size - before.count;
    if (kept > 0)
        return fail(error, -EBUSY, "%s: receive queue %u can't be set up again, as the device keeps %u buffers", port_name(port),
                    receive->queue, kept);
    int failed = pool_open(&receive->pool, RECEIVE_OPS, receive, 4u * receive->ring + 8 * BURST, receive->room,
                           receive->registers ? &receive->regions : NULL, error);
    if (failed)
        goto end;
    failed = rte_eth_rx_queue_setup(port, receive->queue, receive->ring, (unsigned int)rte_eth_dev_socket_id(port), NULL,
                                    receive->pool.mempool);
    if (failed) {
        fail(error, failed, "%s: receive queue %u can't be set up: %s", port_name(port), receive->queue, rte_strerror(-failed));
        pool_close(&receive->pool);
        goto end;
    }
    receive->regions.known = receive->regions.count;
    pool_close(&before);
    return 0;
end:
    receive->pool = before;
    return failed;
}

// What a driver has kept, it may still write to: then the pool stays.
void receive_close(struct mr_receive *receive)
{
    if (receive->pool.count < receive->pool.size)
        return;
    pool_close(&receive->pool);
    lent_close(&receive->guest);
    lent_close(&receive->own);
    free(receive);
}

int receive_start(struct mr_receive *receive, char *error)
{
    said_forget();
    int failed = rte_eth_dev_rx_queue_start(receive->port, receive->queue);
    return failed ? fail(error, failed, "%s: receive queue %u does not start: %s", port_name(receive->port), receive->queue,
                         rte_strerror(-failed))
                  : 0;
}

int receive_stop(struct mr_receive *receive, char *error)
{
    said_forget();
    receive_flush(receive);
    int failed = rte_eth_dev_rx_queue_stop(receive->port, receive->queue);
    return failed ? fail(error, failed, "%s: receive queue %u does not stop: %s", port_name(receive->port), receive->queue,
                         rte_strerror(-failed))
                  : 0;
}

static uint64_t load(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

struct mr_counts receive_counts(const struct mr_receive *receive)
{
    const struct mr_counts *counts = &receive->counts;
    return (struct mr_counts){.frames = load(&counts->frames), .dropped = load(&counts->dropped), .no_buffer = load(&counts->no_buffer)};
}
