// The device passes the application's requests on to the one below. It does not offer those that would touch the packets in an
// aggregate.

#include <rte_ethdev.h>

#include "net_paflow.h"

// Returns the MTU of the device below: packets and aggregates have to pass.
static uint16_t mtu_below(const struct device *device, uint16_t mtu)
{
    return RTE_MAX(mtu, paflow_rules_mtu(device->rules));
}

static int get_info(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
    const struct device *device = dev->data->dev_private;
    struct rte_eth_dev_info below;
    int failed = rte_eth_dev_info_get(device->below, &below);
    if (failed)
        return failed;
    info->min_mtu = below.min_mtu;
    info->max_mtu = below.max_mtu;
    info->min_rx_bufsize = below.min_rx_bufsize;
    info->max_rx_pktlen = below.max_rx_pktlen;
    info->max_rx_queues = below.max_rx_queues;
    info->max_tx_queues = below.max_tx_queues;
    info->max_mac_addrs = 1;
    info->rx_offload_capa = (below.rx_offload_capa & RECEIVE_OFFLOADS) | CHECKSUMS;
    info->tx_offload_capa = below.tx_offload_capa & TRANSMIT_OFFLOADS;
    info->default_rxconf = below.default_rxconf;
    info->default_rxconf.offloads &= RECEIVE_OFFLOADS;
    info->default_txconf = below.default_txconf;
    info->default_txconf.offloads &= TRANSMIT_OFFLOADS;
    info->rx_desc_lim = below.rx_desc_lim;
    info->tx_desc_lim = below.tx_desc_lim;
    info->speed_capa = below.speed_capa;
    info->default_rxportconf = below.default_rxportconf;
    info->default_txportconf = below.default_txportconf;
    return 0;
}

static int configure(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    const struct rte_eth_conf *conf = &dev->data->dev_conf;
    struct rte_eth_conf below = {
        .rxmode = {.mtu = mtu_below(device, dev->data->mtu), .offloads = conf->rxmode.offloads & RECEIVE_OFFLOADS},
        .txmode = {.offloads = conf->txmode.offloads & TRANSMIT_OFFLOADS},
    };
    return rte_eth_dev_configure(device->below, dev->data->nb_rx_queues, dev->data->nb_tx_queues, &below);
}

static int start(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_dev_start(device->below);
}

static int stop(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    for (uint16_t number = 0; number < dev->data->nb_rx_queues; number++) {
        if (dev->data->rx_queues[number] != NULL)
            receive_forget(dev->data->rx_queues[number]);
    }
    return rte_eth_dev_is_valid_port(device->below) ? rte_eth_dev_stop(device->below) : 0;
}

// Closes the device below, too: the application does not know it.
static int close(struct rte_eth_dev *dev)
{
    struct device *device = dev->data->dev_private;
    if (rte_eal_process_type() != RTE_PROC_PRIMARY)
        return 0;
    // The layer above would free it, and it is a part of the device.
    dev->data->mac_addrs = NULL;
    // At the end of the application, it may have been closed before.
    int failed = rte_eth_dev_is_valid_port(device->below) ? rte_eth_dev_close(device->below) : 0;
    for (uint16_t number = 0; number < dev->data->nb_rx_queues; number++)
        receive_release(dev, number);
    for (uint16_t number = 0; number < dev->data->nb_tx_queues; number++)
        transmit_release(dev, number);
    dev->data->nb_rx_queues = 0;
    dev->data->nb_tx_queues = 0;
    pools_free(device);
    paflow_rules_free(device->rules);
    device->rules = NULL;
    return failed;
}

static int update_link(struct rte_eth_dev *dev, int wait)
{
    const struct device *device = dev->data->dev_private;
    struct rte_eth_link link;
    int failed = (wait ? rte_eth_link_get : rte_eth_link_get_nowait)(device->below, &link);
    return failed ? failed : rte_eth_linkstatus_set(dev, &link);
}

static int link_up(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_dev_set_link_up(device->below);
}

static int link_down(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_dev_set_link_down(device->below);
}

static int promiscuous_on(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_promiscuous_enable(device->below);
}

static int promiscuous_off(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_promiscuous_disable(device->below);
}

static int multicast_on(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_allmulticast_enable(device->below);
}

static int multicast_off(struct rte_eth_dev *dev)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_allmulticast_disable(device->below);
}

static int set_mtu(struct rte_eth_dev *dev, uint16_t mtu)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_dev_set_mtu(device->below, mtu_below(device, mtu));
}

static int set_mac(struct rte_eth_dev *dev, struct rte_ether_addr *mac)
{
    const struct device *device = dev->data->dev_private;
    return rte_eth_dev_default_mac_addr_set(device->below, mac);
}

const struct eth_dev_ops device_ops = {
    .dev_infos_get = get_info,
    .dev_configure = configure,
    .dev_start = start,
    .dev_stop = stop,
    .dev_close = close,
    .rx_queue_setup = receive_setup,
    .rx_queue_release = receive_release,
    .tx_queue_setup = transmit_setup,
    .tx_queue_release = transmit_release,
    .link_update = update_link,
    .dev_set_link_up = link_up,
    .dev_set_link_down = link_down,
    .promiscuous_enable = promiscuous_on,
    .promiscuous_disable = promiscuous_off,
    .allmulticast_enable = multicast_on,
    .allmulticast_disable = multicast_off,
    .mtu_set = set_mtu,
    .mac_addr_set = set_mac,
    .stats_get = counters_get,
    .stats_reset = counters_reset,
    .xstats_get = counters_named,
    .xstats_get_names = counters_names,
    .xstats_reset = counters_reset,
};
