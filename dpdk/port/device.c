// A device comes, is set up, started and stopped, and goes.

#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>

#include "receive.h"
#include "transmit.h"

// Finds the port of a device. Returns false if it is not attached.
static bool find(const char *device, uint16_t *port)
{
    struct rte_dev_iterator iterator;
    char name[RTE_DEV_NAME_MAX_LEN];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(device, ","), device);
    RTE_ETH_FOREACH_MATCHING_DEV (*port, name, &iterator) {
        rte_eth_iterator_cleanup(&iterator);
        return true;
    }
    return false;
}

int device_probe(const char *device, uint16_t *port, char *error)
{
    said_forget();
    if (find(device, port))
        return 0;
    said_forget();
    int failed = rte_dev_probe(device);
    if (failed)
        return fail(error, failed, "device \"%s\" can't be attached: %s", device, rte_strerror(-failed));
    if (!find(device, port))
        return fail(error, -ENODEV, "device \"%s\" has no driver, or is no Ethernet device; `dpdk-devbind.py --status` shows which are",
                    device);
    return 0;
}

int device_remove(uint16_t port, char *error)
{
    said_forget();
    struct rte_eth_dev_info info;
    int failed = rte_eth_dev_info_get(port, &info);
    if (failed)
        return fail(error, failed, "%s does not describe itself: %s", port_name(port), rte_strerror(-failed));
    // A driver that can't stop has the next step, and the last.
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
    uint16_t other;
    RTE_ETH_FOREACH_DEV_OF (other, info.device)
        return 0;
    failed = rte_dev_remove(info.device);
    return failed ? fail(error, failed, "port %u can't be detached: %s", port, rte_strerror(-failed)) : 0;
}

static void refusal(uint16_t port, const struct driver *driver, char *text, size_t room)
{
    if (driver->refusal != NULL)
        snprintf(text, room, "%s", driver->refusal);
    else if (rte_eth_dev_pool_ops_supported(port, RECEIVE_OPS) < 0)
        snprintf(text, room, "it receives only into buffers that its hardware keeps");
}

int device_info(uint16_t port, struct mr_info *info, char *error)
{
    said_forget();
    struct rte_eth_dev_info from;
    int failed = rte_eth_dev_info_get(port, &from);
    if (failed)
        return fail(error, failed, "%s does not describe itself: %s", port_name(port), rte_strerror(-failed));
    const struct driver *driver = driver_of(from.driver_name);
    bool unfinished = is_virtual(&from) && !driver->finished;
    *info = (struct mr_info){
        .receive_queues = from.max_rx_queues,
        .transmit_queues = from.max_tx_queues,
        .receive_least = from.rx_desc_lim.nb_min,
        .receive_most = from.rx_desc_lim.nb_max,
        .receive_align = from.rx_desc_lim.nb_align,
        .transmit_least = from.tx_desc_lim.nb_min,
        .transmit_most = from.tx_desc_lim.nb_max,
        .transmit_align = from.tx_desc_lim.nb_align,
        .max_mtu = from.max_mtu,
        .min_room = from.min_rx_bufsize,
        .flags = device_work(&from) | (from.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS ? MR_CHAINS : 0) |
                 (driver_registers(&from) ? MR_REGISTERS : 0) | (unfinished ? MR_UNFINISHED : 0),
    };
    snprintf(info->name, sizeof info->name, "%s", port_name(port));
    snprintf(info->driver, sizeof info->driver, "%s", from.driver_name == NULL ? "" : from.driver_name);
    snprintf(info->bus, sizeof info->bus, "%s", rte_bus_name(rte_dev_bus(from.device)));
    refusal(port, driver, info->refusal, sizeof info->refusal);
    snprintf(info->own_only, sizeof info->own_only, "%s", driver->own_only == NULL ? "" : driver->own_only);
    return 0;
}

// Pieces that a segment may lie in: an MTU of 9600 in buffers of 2 KiB, with its headers in another.
#define SEGMENT_PIECES 7

static bool has(uint64_t offloads, uint64_t others)
{
    return (offloads & others) == others;
}

// RTE_ETH_TX_OFFLOAD_UDP_TSO says nothing: mbufs have one flag for datagrams and for fragments of IP, and drivers differ.
uint16_t device_work(const struct rte_eth_dev_info *info)
{
    const uint64_t capa = info->tx_offload_capa;
    if (!has(capa, RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM))
        return 0;
    uint16_t pieces = info->tx_desc_lim.nb_mtu_seg_max;
    bool is_short = pieces != 0 && pieces < SEGMENT_PIECES;
    bool cuts = has(capa, RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    bool may_cut = cuts && !is_short && !driver_of(info->driver_name)->cuts_by_library;
    return MR_CHECKSUM | (may_cut ? MR_TCP4 | MR_TCP6 : 0);
}

// Returns the offloads to enable at the device for this work.
static uint64_t offloads_for(uint16_t work, uint64_t capa)
{
    uint64_t offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    if (work & MR_CHECKSUM)
        offloads |= RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    // Not every device that cuts has the checksum of IPv4 headers as a feature of its own.
    if (work & (MR_TCP4 | MR_TCP6))
        offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
    return offloads & capa;
}

static uint32_t frame_of(uint32_t mtu, uint8_t tags)
{
    return mtu + RTE_ETHER_HDR_LEN + tags * RTE_VLAN_HLEN;
}

uint32_t device_frame(uint16_t port, uint8_t tags)
{
    uint16_t mtu = RTE_ETHER_MTU;
    rte_eth_dev_get_mtu(port, &mtu);
    return frame_of(mtu, tags);
}

static int too_long(uint16_t port, const struct mr_config *config, const struct rte_eth_dev_info *info, struct rte_eth_conf *conf,
                    char *error)
{
    uint32_t frame = frame_of(conf->rxmode.mtu, MOST_TAGS);
    if (frame <= config->room)
        return 0;
    if (!(info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER))
        return fail(error, -EINVAL,
                    "%s: an MTU of %u needs buffers of %u bytes, and they have %u, while the driver puts no frame into several: lower it",
                    port_name(port), conf->rxmode.mtu, frame, config->room);
    conf->rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
    return 0;
}

int device_configure(uint16_t port, const struct mr_config *config, char *error)
{
    said_forget();
    struct rte_eth_dev_info info;
    int failed = rte_eth_dev_info_get(port, &info);
    if (failed)
        return fail(error, failed, "%s does not describe itself: %s", port_name(port), rte_strerror(-failed));
    uint16_t mtu = config->mtu;
    if (mtu == 0)
        rte_eth_dev_get_mtu(port, &mtu);
    struct rte_eth_conf conf = {
        // Nothing is asked for of received frames: for checked checksums, drivers in software would compute them, and a virtio device
        // bring frames with unfinished ones.
        .rxmode = {.mtu = mtu},
        .txmode = {.offloads = offloads_for(config->work, info.tx_offload_capa)},
        .intr_conf = {.rxq = config->interrupts},
    };
    if (config->rss && config->queues > 1) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
    }
    failed = too_long(port, config, &info, &conf, error);
    if (failed)
        return failed;
    if (config->interrupts && driver_of(info.driver_name)->forgets_events) {
        // Its features change here, when it has none.
        conf.intr_conf.rxq = 0;
        rte_eth_dev_configure(port, config->queues, config->queues, &conf);
        conf.intr_conf.rxq = 1;
    }
    failed = rte_eth_dev_configure(port, config->queues, config->queues, &conf);
    if (failed && config->interrupts) {
        // Not every driver announces frames.
        conf.intr_conf.rxq = 0;
        failed = rte_eth_dev_configure(port, config->queues, config->queues, &conf);
    }
    if (failed)
        return fail(error, failed, "%s can't be set up with %u queues: %s", port_name(port), config->queues, rte_strerror(-failed));
    failed = config->mtu == 0 ? 0 : rte_eth_dev_set_mtu(port, mtu);
    if (failed && failed != -ENOTSUP)
        return fail(error, failed, "%s does not take an MTU of %u: %s", port_name(port), mtu, rte_strerror(-failed));
    return 0;
}

int device_start(uint16_t port, char *error)
{
    said_forget();
    int failed = rte_eth_dev_start(port);
    return failed ? fail(error, failed, "%s does not start: %s", port_name(port), rte_strerror(-failed)) : 0;
}

int device_stop(uint16_t port, char *error)
{
    said_forget();
    int failed = rte_eth_dev_stop(port);
    return failed ? fail(error, failed, "%s does not stop: %s", port_name(port), rte_strerror(-failed)) : 0;
}
