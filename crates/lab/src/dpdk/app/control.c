#include "control.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_bool go, stop;

void say(const char *line)
{
    fprintf(stderr, "%s\n", line);
}

void fail(const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(stderr, "error: %s\n", message);
    exit(1);
}

static void *listen_to_input(void *nothing)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (strcmp(line, "go") == 0)
            go = true;
        else if (strcmp(line, "stop") == 0)
            stop = true;
    }
    if (!go)
        stop = true;
    return nothing;
}

void control_start(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, listen_to_input, NULL))
        fail("no thread can be started to read standard input");
    pthread_detach(thread);
}

void control_wait_for_go(void)
{
    while (!go) {
        if (stop)
            fail("told to stop before it was told to go");
        usleep(200);
    }
}

bool control_is_stopped(void)
{
    return atomic_load_explicit(&stop, memory_order_relaxed);
}
