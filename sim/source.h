// A source of packets at a node: steady or in bursts, at equal or random distances.
#pragma once

#include "hop.h"

#include "ns3/random-variable-stream.h"

class Source {
  public:
    // `number` names the source's random numbers.
    Source(const Scenario& scenario, const SourceSpec& spec, Hop& hop, int64_t number);
    Source(const Source&) = delete;

    uint64_t sent() const { return sent_; }

  private:
    void begin();
    void send();

    const SourceSpec& spec_;
    Hop& hop_;
    int64_t end_ps_;
    int64_t off_ps_ = 0; // when this burst ends
    uint64_t sent_ = 0;
    ns3::Ptr<ns3::UniformRandomVariable> uniform_;
};
