#include "source.h"

#include "payload.h"

// Seconds without an arrival after which packets in flight are given up.
#define PATIENCE 0.2

void source_start(struct source *source, const struct port *port, const struct sink *back)
{
    source->port = port;
    source->headers = template_between(port->number, peer_of(port->number));
    source->back = back;
}

void source_begin(struct source *source, const struct loop *loop)
{
    if (loop->options->rate > 0)
        source->pace = pace_of(loop->options, loop->hz, source->port->number);
    source->begin = loop_running(loop);
    source->settled = source->next;
}

// Returns the length of packet `number`. The mix is 7 of 64 bytes, 4 of 594 and 1 of 1518.
static uint16_t length_of(uint16_t size, uint64_t number)
{
    static const uint16_t mix[] = {64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64};
    return size ? size : mix[number % (sizeof mix / sizeof *mix)];
}

// Makes a packet, but for the time and the phase.
static void prepare(struct source *source, const struct options *options, struct rte_mbuf *packet, uint64_t number)
{
    uint16_t length = length_of(options->size, number);
    uint8_t *bytes = (uint8_t *)rte_pktmbuf_append(packet, length);
    memcpy(bytes, template_for(&source->headers, length), sizeof(struct headers));
    bytes += sizeof(struct headers);
    struct stamp stamp = {.number = number, .flow = source->port->number, .mark = STAMP_MARK};
    if (options->touch == TOUCH_FULL) {
        uint16_t rest = (uint16_t)(length - sizeof(struct headers) - sizeof stamp);
        stamp.sum = payload_fill(bytes + sizeof stamp, rest, number);
    }
    memcpy(bytes, &stamp, sizeof stamp);
}

unsigned source_send(struct source *source, unsigned count, struct loop *loop)
{
    const struct options *options = loop->options;
    if (source->ready < count && buffers_take(source->burst + source->ready, count - source->ready))
        for (; source->ready < count; source->ready++)
            prepare(source, options, source->burst[source->ready], source->next + source->ready);
    count = RTE_MIN(count, source->ready);
    loop_tick(loop);
    for (unsigned at = 0; at < count; at++) {
        struct stamp *stamp = rte_pktmbuf_mtod_offset(source->burst[at], struct stamp *, sizeof(struct headers));
        stamp->time = loop->tally.now;
        stamp->phase = (uint8_t)loop->phase;
    }
    unsigned sent = rte_eth_tx_burst(source->port->id, 0, source->burst, (uint16_t)count);
    if (loop->phase == MEASURED) {
        source->sent.packets += sent;
        for (unsigned at = 0; at < sent; at++)
            source->sent.bytes += length_of(options->size, source->next + at);
    }
    source->next += sent;
    source->ready -= sent;
    memmove(source->burst, source->burst + sent, source->ready * sizeof *source->burst);
    return sent;
}

// Returns how many packets may be sent now at the greatest rate: fewer than a burst if there is a window, or if few are left.
static unsigned room(struct source *source, const struct loop *loop)
{
    const struct options *options = loop->options;
    if (options->packets && loop->phase == MEASURED)
        return (unsigned)RTE_MIN(options->burst, options->packets - source->sent.packets);
    if (!source->back || options->window == 0)
        return options->burst;
    source->settled = RTE_MAX(source->settled, source->back->sequence.next);
    uint64_t in_flight = source->next - source->settled;
    if (in_flight < options->window)
        return (unsigned)RTE_MIN(options->burst, options->window - in_flight);
    if ((double)(loop_running(loop) - source->back->last) > PATIENCE * loop->hz)
        source->settled = source->next;
    return 0;
}

static bool is_due(const struct source *source, const struct loop *loop)
{
    return (double)(loop_running(loop) - source->begin) >= source->pace.due;
}

bool source_turn(struct source *source, struct loop *loop)
{
    loop_tick(loop);
    if (loop->options->rate == 0) {
        unsigned count = room(source, loop);
        return count > 0 && source_send(source, count, loop) > 0;
    }
    if (!is_due(source, loop))
        return false;
    const unsigned burst = loop->options->burst;
    pace_next(&source->pace);
    uint64_t refused = burst - source_send(source, burst, loop);
    // There is no room for other bursts that are due, either.
    if (refused)
        for (; is_due(source, loop); pace_next(&source->pace))
            refused += burst;
    if (loop->phase == MEASURED)
        source->sent.refused += refused;
    return true;
}

void announce(const struct port *port)
{
    struct rte_mbuf *frame;
    if (!buffers_take(&frame, 1))
        return;
    struct template template = template_between(port->number, peer_of(port->number));
    uint8_t *bytes = (uint8_t *)rte_pktmbuf_append(frame, SHORTEST);
    memset(bytes, 0, SHORTEST);
    memcpy(bytes, template_for(&template, SHORTEST), sizeof(struct headers));
    if (rte_eth_tx_burst(port->id, 0, &frame, 1) == 0)
        rte_pktmbuf_free(frame);
}
