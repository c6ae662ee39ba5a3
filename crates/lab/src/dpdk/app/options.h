// Command line of the application: that of all traffic applications.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MAX_PORTS 32
#define MAX_BURST 256
#define SHORTEST 64
#define LONGEST 1518

enum role { SENDER, RECEIVER, CLIENT, SERVER, SENDER_RECEIVER, CLIENT_SERVER, ROLES };
enum touch { TOUCH_NONE, TOUCH_HEADER, TOUCH_FULL };
enum arrivals { CONSTANT, POISSON, ON_OFF };

struct options {
    enum role role;
    const char *ports[MAX_PORTS];
    unsigned port_count;
    uint8_t number;      // Of the first port's endpoint.
    uint16_t size;       // Bytes of a frame; 0 is the mix.
    double rate;         // Packets per second; 0 is the greatest possible.
    enum arrivals arrivals;
    double on, off;      // Seconds.
    uint16_t burst;
    enum touch touch;
    uint64_t window;     // With the greatest rate; 0 is any number.
    uint64_t packets;    // Measured packets of each sender with the greatest rate; 0 is any number.
    double warmup, seconds, cooldown;
    int cpu;             // -1 is any.
    uint16_t queue_size;
    bool packed;
};

// Reads the command line; ends the program with a message if it is wrong.
struct options options_read(int argc, char **argv);

// Returns the role's name.
const char *role_name(enum role role);

// Reports whether both ends of each pair are in this process.
static inline bool role_is_joined(enum role role)
{
    return role == SENDER_RECEIVER || role == CLIENT_SERVER;
}

// Returns the number of a port's endpoint: if the peers are elsewhere, they have every other number.
static inline uint8_t number_of(const struct options *options, unsigned port)
{
    return (uint8_t)(options->number + port * (role_is_joined(options->role) ? 1 : 2));
}

// Reports whether it sends of its own accord.
static inline bool role_sends(enum role role)
{
    return role != RECEIVER && role != SERVER;
}
