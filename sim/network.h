// The network of a scenario, and its counts.
#pragma once

#include "hop.h"
#include "link.h"
#include "scenario.h"
#include "source.h"

#include <memory>
#include <ostream>
#include <vector>

class Network {
  public:
    explicit Network(const Scenario& scenario);

    // Runs until all that was sent has arrived or is lost. Links and nodes are counted until sources end.
    void run();
    // Writes the counts as JSON.
    void report(std::ostream& out) const;

  private:
    void deliver(const Records& records);

    const Scenario& scenario_;
    std::vector<std::unique_ptr<Hop>> hops_;
    std::vector<std::unique_ptr<Link>> links_;
    std::vector<std::unique_ptr<Source>> sources_;
    uint64_t delivered_ = 0;
    uint64_t delivered_bytes_ = 0;
    std::map<int, uint64_t> times_; // packets by time: powers of 2^(1/8) ns
    double total_ns_ = 0;
};
