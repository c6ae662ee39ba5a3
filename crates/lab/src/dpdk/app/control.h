// Protocol with the process that starts the application: lines on standard error and standard input.
#pragma once

#include <stdbool.h>

// Prints a line on standard error.
void say(const char *line);

// Ends the program with a message.
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

// Begins to read standard input, in a thread of its own, so that the loop makes no system call for it.
void control_start(void);

// Waits until it is told to send.
void control_wait_for_go(void);

// Reports whether it was told to stop. The end of the input is such a word, too, unless it was told to send: that ends
// by itself.
bool control_is_stopped(void);
