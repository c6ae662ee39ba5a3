#include "app.h"

#include <stdio.h>

static void print_sent(const struct sent *sent, double seconds)
{
    printf(",\"sent\":{\"packets\":%lu,\"bytes\":%lu,\"refused\":%lu,\"seconds\":%.9f}", sent->packets, sent->bytes,
           sent->refused, seconds);
}

static void print_received(const struct received *received)
{
    printf(",\"received\":{\"packets\":%lu,\"bytes\":%lu,\"duplicates\":%lu,\"reordered\":%lu,\"changed\":%lu}",
           received->packets, received->bytes, received->duplicates, received->reordered, received->changed);
}

// Prints the times of packets, in nanoseconds; nothing if there was none.
static void print_times(const struct histogram *times, double hz)
{
    static const struct {
        const char *name;
        double share;
    } quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}, {"p99_99", 0.9999}};
    if (times->count == 0)
        return;
    const double ns = 1e9 / hz;
    printf(",\"latency\":{\"min\":%.1f,\"mean\":%.1f", (double)times->min * ns,
           (double)times->sum / (double)times->count * ns);
    for (unsigned at = 0; at < sizeof quantiles / sizeof *quantiles; at++)
        printf(",\"%s\":%.1f", quantiles[at].name, histogram_quantile(times, quantiles[at].share) * ns);
    printf(",\"max\":%.1f}", (double)times->max * ns);
}

// Prints all flows; a server has none, as its client counts returned packets.
static void print_flows(const struct app *app, double seconds)
{
    const double hz = app->loop.hz;
    for (unsigned at = 0; at < app->sources || at < app->sinks; at++) {
        // A source and the sink of its packets have the same place.
        uint8_t flow = at < app->sources ? app->source[at].port->number : app->sink[at].flow;
        printf("%s{\"flow\":%u", at ? "," : "", flow);
        if (at < app->sources)
            print_sent(&app->source[at].sent, seconds);
        if (at < app->sinks) {
            print_received(&app->sink[at].received);
            print_times(&app->sink[at].times, hz);
        }
        printf("}");
    }
}

void app_report(const struct app *app)
{
    const struct tally *begin = &app->loop.measured[0], *end = &app->loop.measured[1];
    const double hz = app->loop.hz, seconds = (double)(end->now - begin->now) / hz;
    const double stalled = (double)(end->stalled - begin->stalled) / hz, ran = seconds - stalled;
    printf("{\"role\":\"%s\",\"flows\":[", role_name(app->loop.options->role));
    print_flows(app, seconds);
    const double idle = ran > 0 ? (double)(end->idle - begin->idle) / hz / ran : 0;
    printf("],\"idle\":%.6f,\"stalled\":%.9f}\n", idle, stalled);
    fflush(stdout);
}
