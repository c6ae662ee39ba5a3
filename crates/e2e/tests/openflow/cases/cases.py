"""Runs the cases of os-ken's switch tester against two switches that connect, and writes a line of JSON for each.

Arguments: a directory or file of cases, the file for results, and the port to listen on.
"""

import os

os.environ["OSKEN_HUB_TYPE"] = "eventlet"

import json
import sys

from os_ken.lib import hub

hub.patch()

from os_ken import cfg, log
from os_ken.base.app_manager import AppManager
import os_ken.controller.controller  # Its options.
from os_ken.tests.switch import tester

# The tester's own switch may need some time until it goes by a flow: such a case is tried again.
ATTEMPTS = 4
AGAIN = ("Receiving timeout", "Table-miss error")

cases, results, port = sys.argv[1:]
# Pause before the counters of a table are read.
tester.INTERVAL = 0.1


class Recorder:
    """Remembers the lines that the tester logs about a case."""

    def __init__(self, logger):
        self.logger = logger
        self.lines = []

    def info(self, form, *words):
        self.lines.append((form, words))

    def __getattr__(self, name):
        return getattr(self.logger, name)


def recorded(execute):
    def run(self, test, description):
        logger = self.logger
        for attempt in range(ATTEMPTS):
            self.logger = Recorder(logger)
            try:
                result = execute(self, test, description)
            finally:
                reasons = [words[0] for form, words in self.logger.lines if form == "        %s"]
                self.logger = logger
            if result not in AGAIN:
                break
        row = {"file": self.file, "case": test.description, "result": result, "reason": " ".join(reasons)}
        out.write(json.dumps(row) + "\n")
        out.flush()
        return result

    return run


def named(execute):
    def run(self, testfile):
        self.file = testfile.description
        return execute(self, testfile)

    return run


tester.OfTester._test_execute = recorded(tester.OfTester._test_execute)
tester.OfTester._test_file_execute = named(tester.OfTester._test_file_execute)

log.early_init_log()
options = {"dir": cases, "target": "1", "tester": "2", "interval": "0"}
words = [word for name, value in options.items() for word in (f"--test-switch-{name}", value)]
cfg.CONF(args=words + ["--ofp-tcp-listen-port", port], project="os_ken")
log.init_log()
with open(results, "w") as out:
    AppManager.run_apps(["os_ken.tests.switch.tester"])
