// Simulates a service chain: reads a scenario on standard input, and writes what was counted as JSON (docs/simulation.md).
#include "network.h"
#include "scenario.h"

#include "ns3/nstime.h"
#include "ns3/rng-seed-manager.h"

#include <exception>
#include <iostream>

int main() {
    try {
        const auto scenario = read_scenario(std::cin);
        ns3::Time::SetResolution(ns3::Time::PS);
        ns3::RngSeedManager::SetSeed(scenario.seed);
        Network network(scenario);
        network.run();
        network.report(std::cout);
    } catch (const std::exception& error) {
        std::cerr << "scenario: " << error.what() << "\n";
        return 1;
    }
}
