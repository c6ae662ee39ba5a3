// What DPDK says about errors becomes part of ours, in place of its log.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rte_log.h>

#include "internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char said[MR_ERROR / 2];
static size_t said_length;

// Any thread of DPDK's may call it. What comes first is nearest to the cause, and is kept.
static ssize_t hear(void *cookie, const char *text, size_t length)
{
    (void)cookie;
    int level = rte_log_cur_msg_loglevel();
    // It ends the process next.
    if (level <= (int)RTE_LOG_CRIT)
        fwrite(text, 1, length, stderr);
    if (level > (int)RTE_LOG_ERR)
        return (ssize_t)length;
    pthread_mutex_lock(&lock);
    size_t kept = RTE_MIN(length, sizeof said - 1 - said_length);
    memcpy(said + said_length, text, kept);
    said_length += kept;
    pthread_mutex_unlock(&lock);
    return (ssize_t)length;
}

void said_open(void)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = hear});
    if (stream == NULL)
        return;
    // A message is heard in one piece.
    setvbuf(stream, NULL, _IOLBF, BUFSIZ);
    rte_openlog_stream(stream);
}

void said_forget(void)
{
    pthread_mutex_lock(&lock);
    said_length = 0;
    pthread_mutex_unlock(&lock);
}

int fail(char *error, int failed, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error, MR_ERROR, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    said[said_length] = 0;
    // Lines become parts of a sentence.
    for (char *end; (end = strrchr(said, '\n')) != NULL && end[1] == 0;)
        *end = 0;
    for (char *end = said; (end = strchr(end, '\n')) != NULL;)
        *end = ';';
    if (length >= 0 && length < MR_ERROR)
        snprintf(error + length, (size_t)(MR_ERROR - length), "%s%s", said[0] ? "; DPDK says: " : "", said);
    said_length = 0;
    pthread_mutex_unlock(&lock);
    return failed < 0 ? failed : -EIO;
}

const char *port_name(uint16_t port)
{
    static __thread char name[RTE_ETH_NAME_MAX_LEN];
    if (rte_eth_dev_get_name_by_port(port, name) != 0)
        snprintf(name, sizeof name, "port %u", port);
    return name;
}
