// An application: the sources, sinks and reflectors at its ports, and the loop over them.
#pragma once

#include "reflector.h"
#include "source.h"

struct app {
    struct loop loop;
    unsigned sources, sinks, reflectors;
    struct source source[MAX_PORTS];
    struct sink sink[MAX_PORTS];
    struct sink reflector[MAX_PORTS];
};

// Creates the application at its ports.
struct app *app_create(const struct options *options, const struct port *ports);

// Runs it to its end, from the word that all ports are open on.
void app_run(struct app *app);

// Prints its report, as a line of JSON.
void app_report(const struct app *app);
