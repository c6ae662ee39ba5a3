#include "options.h"

#include "control.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ROLE_NAMES[ROLES] = {"sender", "receiver", "client", "server", "sender-receiver",
                                              "client-server"};

const char *role_name(enum role role)
{
    return ROLE_NAMES[role];
}

static uint64_t whole(const char *option, const char *text, uint64_t least, uint64_t greatest)
{
    char *end;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || number < least || number > greatest)
        fail("--%s \"%s\": give a whole number from %lu to %lu", option, text, least, greatest);
    return number;
}

static double positive(const char *option, const char *text, bool zero)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || number < 0 || (number == 0 && !zero))
        fail("--%s \"%s\": give a number %s 0", option, text, zero ? "from" : "greater than");
    return number;
}

static unsigned choice(const char *option, const char *text, const char *const *names, unsigned count)
{
    for (unsigned at = 0; at < count; at++)
        if (strcmp(text, names[at]) == 0)
            return at;
    char all[256] = "";
    for (unsigned at = 0; at < count; at++)
        snprintf(all + strlen(all), sizeof all - strlen(all), " %s", names[at]);
    fail("%s \"%s\": give one of:%s", option, text, all);
}

static void read_arrivals(struct options *options, const char *text)
{
    unsigned on, off;
    int length = 0;
    if (strcmp(text, "constant") == 0) {
        options->arrivals = CONSTANT;
    } else if (strcmp(text, "poisson") == 0) {
        options->arrivals = POISSON;
    } else if (sscanf(text, "on-off:%u/%u%n", &on, &off, &length) == 2 && text[length] == 0 && on > 0) {
        options->arrivals = ON_OFF;
        options->on = on * 1e-3;
        options->off = off * 1e-3;
    } else {
        fail("--arrivals \"%s\": give \"constant\", \"poisson\", or \"on-off:ON/OFF\" in milliseconds", text);
    }
}

static void check(const struct options *options)
{
    if (options->port_count == 0)
        fail("no port: give a vhost-user socket with --port");
    if (options->queue_size & (options->queue_size - 1))
        fail("--queue-size %u: give a power of two", options->queue_size);
    if (role_is_joined(options->role) && (options->port_count % 2 || options->number % 2))
        fail("pairs take two ports each, and the first one's --number is even");
    if (options->number + 2 * options->port_count > UINT8_MAX)
        fail("--number %u: the last port's number would be greater than 254", options->number);
}

struct options options_read(int argc, char **argv)
{
    enum { TECHNIQUE, PORT, NUMBER, SIZE, RATE, ARRIVALS, BURST, TOUCH, WINDOW, PACKETS, WARMUP, SECONDS, COOLDOWN, CPU,
           QUEUE_SIZE, PACKED };
    static const struct option known[] = {
        {"technique", required_argument, NULL, TECHNIQUE}, {"port", required_argument, NULL, PORT},
        {"number", required_argument, NULL, NUMBER},       {"size", required_argument, NULL, SIZE},
        {"rate", required_argument, NULL, RATE},           {"arrivals", required_argument, NULL, ARRIVALS},
        {"burst", required_argument, NULL, BURST},         {"touch", required_argument, NULL, TOUCH},
        {"window", required_argument, NULL, WINDOW},       {"warmup", required_argument, NULL, WARMUP},
        {"seconds", required_argument, NULL, SECONDS},     {"cooldown", required_argument, NULL, COOLDOWN},
        {"cpu", required_argument, NULL, CPU},             {"queue-size", required_argument, NULL, QUEUE_SIZE},
        {"packed", no_argument, NULL, PACKED},             {"packets", required_argument, NULL, PACKETS},
        {0},
    };
    static const char *const techniques[] = {"virtio-user-dpdk"};
    static const char *const touches[] = {"none", "header", "full"};
    struct options options = {
        .size = 64, .burst = 32, .touch = TOUCH_FULL, .warmup = 0.5, .seconds = 2.0, .cooldown = 0.2, .cpu = -1,
        .queue_size = 256,
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?')
            exit(2); // getopt has said why.
        const char *name = known[option].name;
        switch (option) {
        case TECHNIQUE:
            choice("--technique", optarg, techniques, 1);
            break;
        case PORT:
            if (options.port_count == MAX_PORTS)
                fail("more than %u ports", MAX_PORTS);
            options.ports[options.port_count++] = optarg;
            break;
        case NUMBER:
            options.number = (uint8_t)whole(name, optarg, 0, 254);
            break;
        case SIZE:
            options.size = strcmp(optarg, "imix") ? (uint16_t)whole(name, optarg, SHORTEST, LONGEST) : 0;
            break;
        case RATE:
            options.rate = strcmp(optarg, "max") ? positive(name, optarg, false) : 0;
            break;
        case ARRIVALS:
            read_arrivals(&options, optarg);
            break;
        case BURST:
            options.burst = (uint16_t)whole(name, optarg, 1, MAX_BURST);
            break;
        case TOUCH:
            options.touch = (enum touch)choice("--touch", optarg, touches, 3);
            break;
        case WINDOW:
            options.window = whole(name, optarg, 0, UINT64_MAX);
            break;
        case PACKETS:
            options.packets = whole(name, optarg, 0, UINT64_MAX);
            break;
        case WARMUP:
            options.warmup = positive(name, optarg, true);
            break;
        case SECONDS:
            options.seconds = positive(name, optarg, false);
            break;
        case COOLDOWN:
            options.cooldown = positive(name, optarg, true);
            break;
        case CPU:
            options.cpu = (int)whole(name, optarg, 0, 4095);
            break;
        case QUEUE_SIZE:
            options.queue_size = (uint16_t)whole(name, optarg, 2, 32768);
            break;
        case PACKED:
            options.packed = true;
            break;
        }
    }
    if (optind + 1 != argc)
        fail("give exactly one role: sender, receiver, client, server, sender-receiver or client-server");
    options.role = (enum role)choice("role", argv[optind], ROLE_NAMES, ROLES);
    check(&options);
    return options;
}
