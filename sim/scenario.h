// A scenario: lines of words on standard input, which docs/simulation.md explains.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <vector>

// How packets are joined into a frame.
struct Format {
    uint32_t overhead = 46;  // bytes of a frame beside its packets
    uint32_t entry = 0;      // bytes before each packet
    uint32_t align = 1;      // packets begin at multiples of this
    uint32_t trailer = 0;    // bytes of a packet that stay out: its checksum
    uint32_t largest = 1514; // bytes of the largest frame that is made

    // Returns the bytes that a packet of this length takes.
    uint32_t taken(uint32_t length) const {
        return entry + (length - trailer + align - 1) / align * align;
    }
};

// A node that acts as the paper's: it joins as many packets as its input rate says, and has a greatest output rate.
struct PaperModel {
    std::map<double, double> ratio; // frames of a packet, by packets a second
    double output_pps = 5e6;
    double window_us = 1000; // the rate is measured in
};

// A node that acts as Millrace: it joins packets that wait while it works, and work takes cycles.
struct MillraceModel {
    double ghz = 1;
    double cycles_round = 0;
    double cycles_frame = 0;    // sent
    double cycles_received = 0; // frame
    double cycles_packet = 0;
    uint32_t burst = 32; // packets of a round at most
};

struct SourceSpec {
    std::string node;
    double pps = 0; // while it sends
    uint32_t train = 1;
    bool poisson = false;
    double on_us = 0; // 0: always
    double off_us[2] = {0, 0};
    uint32_t chain = 0;
    uint64_t packets = 0; // at most; 0: any number
    std::vector<uint32_t> sizes = {64};
};

struct Scenario {
    uint32_t seed = 1;
    double seconds = 0.1;
    bool aggregate = true;
    bool paper = false;
    bool by_chain = false; // the next hop follows from the chain, and not packet by packet
    double hold_us = 0;
    double link_gbps = 40;
    double delay_us = 1;
    double loss = 0;
    Format format;
    PaperModel paper_model;
    MillraceModel millrace_model;
    std::vector<std::string> nodes;
    std::vector<std::string> sinks;
    std::vector<std::pair<std::string, std::string>> links;
    std::vector<SourceSpec> sources;
};

// Throws std::runtime_error with the line that is wrong.
Scenario read_scenario(std::istream& input);
