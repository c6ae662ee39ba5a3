// Sender, receiver, client or server of UDP packets over virtio_user ports, as an ordinary DPDK application:
//
//     dpdk-app [DPDK's options] -- ROLE --technique virtio-user-dpdk --port SOCKET [--port SOCKET ...] [...]
//
// Its command line behind `--`, its protocol with the process that starts it, its packets and its report are those of
// the other traffic applications (crates/loadgen/src/app). It adds processor and devices to DPDK's options itself.

#include "app.h"
#include "control.h"
#include "payload.h"

#include <rte_eal.h>
#include <string.h>

int main(int argc, char **argv)
{
    int own = 0;
    while (own < argc && strcmp(argv[own], "--"))
        own++;
    if (own == argc)
        fail("no application: give its arguments behind DPDK's and --");
    // Options are read from the second word on, like the program's; the `--` stands for its name.
    struct options options = options_read(argc - own, argv + own);
    struct port ports[MAX_PORTS];
    ports_start(own, argv, &options);
    payload_start();
    ports_open(ports, &options);
    struct app *app = app_create(&options, ports);
    app_run(app);
    app_report(app);
    ports_close(ports, options.port_count);
    rte_eal_cleanup();
    return 0;
}
