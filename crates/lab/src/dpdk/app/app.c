#include "app.h"

#include "control.h"

#include <stdlib.h>

// Seconds between two announcements of a port that has not heard its peer.
#define ANNOUNCE 0.1
// Seconds between two packets of a flow of which none has come through yet.
#define PROBE 0.01
// Seconds in which the first packet of each flow must come through.
#define FIRST 20.0
// Seconds without a packet after which none is in flight any more: few once packets of the cool-down have come, as
// measured ones come before these.
#define SILENCE 0.02
#define LONG_SILENCE 1.0
// Seconds at the end after which packets that are still in flight are given up.
#define LIMIT 5.0

static struct sink *add_sink(struct app *app, const struct port *port, uint8_t flow)
{
    struct sink *sink = &app->sink[app->sinks++];
    sink_start(sink, port, flow, app->loop.options->touch);
    return sink;
}

static void add_source(struct app *app, const struct port *port, const struct sink *back)
{
    source_start(&app->source[app->sources++], port, back);
}

static void add_reflector(struct app *app, const struct port *port)
{
    reflector_start(&app->reflector[app->reflectors++], port);
}

struct app *app_create(const struct options *options, const struct port *ports)
{
    struct app *app = calloc(1, sizeof *app);
    if (!app)
        fail("no memory");
    app->loop = loop_start(options);
    for (unsigned at = 0; at < options->port_count; at++) {
        const struct port *port = &ports[at];
        switch (options->role) {
        case SENDER:
            add_source(app, port, NULL);
            break;
        case RECEIVER:
            add_sink(app, port, peer_of(port->number));
            break;
        case CLIENT:
            // A client itself knows the packets in flight; a sender only together with its receiver.
            add_source(app, port, add_sink(app, port, port->number));
            break;
        case SERVER:
            add_reflector(app, port);
            break;
        case SENDER_RECEIVER:
            if (at % 2)
                add_source(app, port - 1, add_sink(app, port, peer_of(port->number)));
            break;
        case CLIENT_SERVER:
            if (at % 2)
                add_reflector(app, port);
            else
                add_source(app, port, add_sink(app, port, port->number));
            break;
        case ROLES:
            break;
        }
    }
    return app;
}

// Receives at each port; reports whether there was anything.
static bool receive(struct app *app)
{
    bool moved = false;
    for (unsigned at = 0; at < app->sinks; at++)
        moved |= sink_turn(&app->sink[at], &app->loop);
    for (unsigned at = 0; at < app->reflectors; at++)
        moved |= reflector_turn(&app->reflector[at], &app->loop);
    return moved;
}

// Reports whether this many seconds have passed since `*last`, and sets that to now if so.
static bool every(const struct loop *loop, double seconds, uint64_t *last)
{
    if ((double)(loop->tally.now - *last) < seconds * loop->hz)
        return false;
    *last = loop->tally.now;
    return true;
}

// Lets receiving ports that have not heard their peer announce themselves.
static void announce_all(struct app *app, uint64_t *last)
{
    if (!every(&app->loop, ANNOUNCE, last))
        return;
    for (unsigned at = 0; at < app->sinks; at++)
        if (!app->sink[at].heard)
            announce(app->sink[at].port);
    for (unsigned at = 0; at < app->reflectors; at++)
        if (!app->reflector[at].heard)
            announce(app->reflector[at].port);
}

// Returns the port of a flow of which no packet has come yet; NULL if there is none.
static const struct port *silent(const struct app *app)
{
    for (unsigned at = 0; at < app->sinks; at++)
        if (!app->sink[at].heard)
            return app->sink[at].port;
    return NULL;
}

// Sends single packets until one of each flow has come through. Only a receiving end can know that.
static void wait_for_first(struct app *app)
{
    struct loop *loop = &app->loop;
    uint64_t announced = 0, probed = 0;
    loop_tick(loop);
    const uint64_t begin = loop->tally.now;
    const struct port *port;
    while ((port = silent(app))) {
        loop_tick(loop);
        announce_all(app, &announced);
        if (every(loop, PROBE, &probed))
            for (unsigned at = 0; at < app->sources; at++)
                source_send(&app->source[at], 1, loop);
        receive(app);
        if ((double)(loop->tally.now - begin) > FIRST * loop->hz)
            fail("%s: no packet came within %.0f s; does the switch join it with its peer's port?", port->socket,
                 FIRST);
    }
}

// Runs rounds until the end of a phase, or until it is told to stop.
static void send_for(struct app *app, enum phase phase, double seconds)
{
    struct loop *loop = &app->loop;
    loop_enter(loop, phase);
    const uint64_t end = loop->tally.now + (uint64_t)(seconds * loop->hz);
    while (loop->tally.now < end && !control_is_stopped()) {
        const struct tally begin = loop->tally;
        bool moved = false;
        for (unsigned at = 0; at < app->sources; at++)
            moved |= source_turn(&app->source[at], loop);
        moved |= receive(app);
        loop_tick(loop);
        loop_note_round(loop, begin, moved);
    }
}

// Reports whether a packet of the cool-down has come of each flow that is received.
static bool is_cooling(const struct app *app)
{
    bool all = true;
    for (unsigned at = 0; at < app->sinks; at++)
        all &= app->sink[at].phase == COOL_DOWN;
    for (unsigned at = 0; at < app->reflectors; at++)
        all &= app->reflector[at].phase == COOL_DOWN;
    return all;
}

// Waits for packets in flight. Only time in which the thread runs counts. A sender does not see when the switch has
// taken its packets; measured ones have the time of the cool-down for that.
static void drain(struct app *app)
{
    struct loop *loop = &app->loop;
    const uint64_t begin = loop_running(loop);
    uint64_t last = begin;
    double silence, passed;
    do {
        if (receive(app))
            last = loop_running(loop);
        loop_tick(loop);
        silence = (double)(loop_running(loop) - last) / loop->hz;
        passed = (double)(loop_running(loop) - begin) / loop->hz;
    } while (passed < LIMIT && silence < (is_cooling(app) ? SILENCE : LONG_SILENCE));
}

static void run_sender(struct app *app)
{
    struct loop *loop = &app->loop;
    const struct options *options = loop->options;
    control_wait_for_go();
    wait_for_first(app);
    for (unsigned at = 0; at < app->sources; at++)
        source_begin(&app->source[at], loop);
    send_for(app, WARM_UP, options->warmup);
    say("measuring");
    loop_tick(loop);
    send_for(app, MEASURED, options->seconds);
    loop_enter(loop, COOL_DOWN);
    say("measured");
    loop_tick(loop);
    send_for(app, COOL_DOWN, options->cooldown);
}

// Returns the latest phase that a packet belonged to.
static enum phase phase_seen(const struct app *app)
{
    enum phase phase = WARM_UP;
    for (unsigned at = 0; at < app->sinks; at++)
        phase = RTE_MAX(phase, app->sink[at].phase);
    for (unsigned at = 0; at < app->reflectors; at++)
        phase = RTE_MAX(phase, app->reflector[at].phase);
    return phase;
}

static void run_receiver(struct app *app)
{
    struct loop *loop = &app->loop;
    uint64_t announced = 0;
    while (!control_is_stopped()) {
        const struct tally begin = loop->tally;
        bool moved = receive(app);
        loop_tick(loop);
        loop_note_round(loop, begin, moved);
        if (!moved)
            announce_all(app, &announced);
        loop_enter(loop, phase_seen(app));
    }
}

void app_run(struct app *app)
{
    control_start();
    say("ready");
    loop_tick(&app->loop);
    if (role_sends(app->loop.options->role))
        run_sender(app);
    else
        run_receiver(app);
    drain(app);
    loop_enter(&app->loop, COOL_DOWN);
}
