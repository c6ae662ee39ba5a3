// The device comes and goes: --vdev net_paflow0,dev=DEVICE,config=FILE,port=NAME

#include <string.h>

#include <ethdev_vdev.h>
#include <rte_ethdev.h>
#include <rte_kvargs.h>

#include "net_paflow.h"

RTE_LOG_REGISTER(paflow_logtype, pmd.net.paflow, NOTICE);

static const char *const KEYS[] = {"dev", "config", "port", NULL};

// Room for the errors of a configuration.
#define ERROR_SIZE 4096

// Returns the value of a key, or NULL.
static const char *value(const struct rte_kvargs *arguments, const char *key)
{
    return rte_kvargs_get(arguments, key);
}

// Logs a text line by line.
static void say(const char *name, char *text)
{
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        LOG(ERR, "%s: %s", name, line);
}

// Checks that the device below is there, nobody else's, and takes aggregates; becomes its owner.
static int own(struct device *device, const char *name, const char *below)
{
    if (rte_eth_dev_get_port_by_name(below, &device->below) != 0) {
        LOG(ERR, "%s: there is no device %s: name it by dev= as its --vdev or PCI address does, and put its --vdev first", name,
            below);
        return -ENODEV;
    }
    struct rte_eth_dev_info info;
    int failed = rte_eth_dev_info_get(device->below, &info);
    if (failed) {
        LOG(ERR, "%s: %s does not describe itself: %s", name, below, rte_strerror(-failed));
        return failed;
    }
    if (paflow_rules_mtu(device->rules) > info.max_mtu) {
        LOG(ERR, "%s: %s takes an MTU of at most %u, and aggregates may have %u: lower `mtu` of [aggregation]", name, below,
            info.max_mtu, paflow_rules_mtu(device->rules));
        return -EINVAL;
    }
    failed = rte_eth_dev_owner_new(&device->owner.id);
    snprintf(device->owner.name, sizeof device->owner.name, "%s", name);
    if (failed == 0)
        failed = rte_eth_dev_owner_set(device->below, &device->owner);
    if (failed)
        LOG(ERR, "%s: %s is another device's: a device can stand below one only", name, below);
    return failed;
}

static int create(struct rte_vdev_device *vdev, const struct rte_kvargs *arguments)
{
    const char *name = rte_vdev_device_name(vdev), *below = value(arguments, "dev"), *config = value(arguments, "config");
    const char *port = value(arguments, "port");
    if (below == NULL || config == NULL) {
        LOG(ERR, "%s: `%s=` is missing: give dev=DEVICE,config=FILE", name, below == NULL ? "dev" : "config");
        return -EINVAL;
    }
    char error[ERROR_SIZE];
    struct paflow_rules *rules = paflow_rules_load(config, port == NULL ? name : port, error, sizeof error);
    if (rules == NULL) {
        say(name, error);
        return -EINVAL;
    }
    if (paflow_rules_next_hops(rules) == 0)
        LOG(NOTICE, "%s: no next hop of %s is behind port %s, so that nothing is joined: port= sets the name", name, config,
            port == NULL ? name : port);
    struct rte_eth_dev *dev = rte_eth_vdev_allocate(vdev, sizeof(struct device));
    if (dev == NULL) {
        paflow_rules_free(rules);
        return -ENOMEM;
    }
    struct device *device = dev->data->dev_private;
    device->rules = rules;
    int failed = own(device, name, below);
    if (failed) {
        rte_eth_dev_release_port(dev);
        paflow_rules_free(rules);
        return failed;
    }
    rte_eth_macaddr_get(device->below, &device->mac);
    dev->data->mac_addrs = &device->mac;
    dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
    dev->dev_ops = &device_ops;
    dev->rx_pkt_burst = receive;
    dev->tx_pkt_burst = transmit;
    rte_eth_dev_probing_finish(dev);
    return 0;
}

static int probe(struct rte_vdev_device *vdev)
{
    const char *name = rte_vdev_device_name(vdev);
    if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
        LOG(ERR, "%s: secondary processes can't use it: its rules are in the primary one's memory", name);
        return -ENOTSUP;
    }
    struct rte_kvargs *arguments = rte_kvargs_parse(rte_vdev_device_args(vdev), KEYS);
    if (arguments == NULL) {
        LOG(ERR, "%s: \"%s\" has another key than dev, config and port", name, rte_vdev_device_args(vdev));
        return -EINVAL;
    }
    int failed = create(vdev, arguments);
    rte_kvargs_free(arguments);
    return failed;
}

static int withdraw(struct rte_vdev_device *vdev)
{
    struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));
    // An application may have closed it.
    if (dev == NULL)
        return 0;
    int failed = rte_eth_dev_stop(dev->data->port_id);
    return failed ? failed : rte_eth_dev_close(dev->data->port_id);
}

static struct rte_vdev_driver driver = {.probe = probe, .remove = withdraw};

RTE_PMD_REGISTER_VDEV(net_paflow, driver);
RTE_PMD_REGISTER_PARAM_STRING(net_paflow, "dev=<device> config=<file> port=<name>");
