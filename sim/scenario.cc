#include "scenario.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace {

template <class T> T value(std::istringstream& words) {
    T read;
    if (!(words >> read)) {
        throw std::runtime_error("a value is missing or wrong");
    }
    return read;
}

// Reads the number after `key` and an equals sign.
template <class T> void read(T& into, const std::string& key, const std::string& text) {
    std::istringstream words(text);
    if (!(words >> into) || !words.eof()) {
        throw std::runtime_error("`" + key + "` needs a number, and has `" + text + "`");
    }
}

std::vector<uint32_t> sizes(const std::string& text) {
    std::vector<uint32_t> all;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        read(all.emplace_back(), "sizes", part);
    }
    return all;
}

// Returns whether the next word is `yes`; if not, it has to be `no`.
bool choice(std::istringstream& words, const std::string& yes, const std::string& no) {
    const auto word = value<std::string>(words);
    if (word != yes && word != no) {
        throw std::runtime_error("there is no `" + word + "`: write `" + yes + "` or `" + no + "`");
    }
    return word == yes;
}

// A record of a packet and the count of a frame fit into the shortest one.
const uint32_t SHORTEST = 60;

SourceSpec source(std::istringstream& words) {
    SourceSpec spec;
    spec.node = value<std::string>(words);
    for (std::string word; words >> word;) {
        const auto at = word.find('=');
        const auto key = word.substr(0, at);
        const auto text = at == std::string::npos ? "" : word.substr(at + 1);
        if (key == "pps") read(spec.pps, key, text);
        else if (key == "train") read(spec.train, key, text);
        else if (key == "poisson") spec.poisson = true;
        else if (key == "on-us") read(spec.on_us, key, text);
        else if (key == "off-us-least") read(spec.off_us[0], key, text);
        else if (key == "off-us-most") read(spec.off_us[1], key, text);
        else if (key == "chain") read(spec.chain, key, text);
        else if (key == "packets") read(spec.packets, key, text);
        else if (key == "sizes") spec.sizes = sizes(text);
        else throw std::runtime_error("a source has no `" + key + "`");
    }
    if (!(spec.pps > 0) || spec.train == 0 || spec.sizes.empty()) {
        throw std::runtime_error("a source needs `pps`, and `train` and `sizes` can't be empty");
    }
    if (*std::min_element(spec.sizes.begin(), spec.sizes.end()) < SHORTEST) {
        throw std::runtime_error("a packet has " + std::to_string(SHORTEST) + " bytes at least");
    }
    return spec;
}

void check(const Scenario& s) {
    const auto positive = [](const char* key, double value) {
        if (!(value > 0)) {
            throw std::runtime_error("`" + std::string(key) + "` is not positive");
        }
    };
    positive("seconds", s.seconds);
    positive("link-gbps", s.link_gbps);
    positive("align", s.format.align);
    positive("output-pps", s.paper_model.output_pps);
    positive("window-us", s.paper_model.window_us);
    positive("ghz", s.millrace_model.ghz);
    positive("burst", s.millrace_model.burst);
}

} // namespace

Scenario read_scenario(std::istream& input) {
    Scenario s;
    using Words = std::istringstream;
    std::map<std::string, std::function<void(Words&)>> keys;
    const auto number = [&keys](const char* key, auto& into) {
        keys[key] = [&into](Words& words) { into = value<std::decay_t<decltype(into)>>(words); };
    };
    number("seed", s.seed);
    number("seconds", s.seconds);
    number("aggregate", s.aggregate);
    number("hold-us", s.hold_us);
    number("link-gbps", s.link_gbps);
    number("delay-us", s.delay_us);
    number("loss", s.loss);
    number("overhead", s.format.overhead);
    number("entry", s.format.entry);
    number("align", s.format.align);
    number("trailer", s.format.trailer);
    number("largest", s.format.largest);
    number("output-pps", s.paper_model.output_pps);
    number("window-us", s.paper_model.window_us);
    number("ghz", s.millrace_model.ghz);
    number("cycles-round", s.millrace_model.cycles_round);
    number("cycles-frame", s.millrace_model.cycles_frame);
    number("cycles-received", s.millrace_model.cycles_received);
    number("cycles-packet", s.millrace_model.cycles_packet);
    number("burst", s.millrace_model.burst);
    keys["model"] = [&](Words& words) { s.paper = choice(words, "paper", "millrace"); };
    keys["next-hop"] = [&](Words& words) { s.by_chain = choice(words, "chain", "packet"); };
    keys["ratio"] = [&](Words& words) {
        const auto pps = value<double>(words);
        s.paper_model.ratio[pps] = value<double>(words);
    };
    keys["node"] = [&](Words& words) { s.nodes.push_back(value<std::string>(words)); };
    keys["sink"] = [&](Words& words) { s.sinks.push_back(value<std::string>(words)); };
    keys["link"] = [&](Words& words) {
        const auto from = value<std::string>(words);
        s.links.emplace_back(from, value<std::string>(words));
    };
    keys["source"] = [&](Words& words) { s.sources.push_back(source(words)); };

    std::string line;
    for (unsigned at = 1; std::getline(input, line); at++) {
        Words words(line.substr(0, line.find('#'))); // the rest is a comment
        std::string key;
        if (!(words >> key)) {
            continue;
        }
        const auto known = keys.find(key);
        try {
            if (known == keys.end()) {
                throw std::runtime_error("there is no `" + key + "`");
            }
            known->second(words);
            if (words >> key) {
                throw std::runtime_error("`" + key + "` is too much");
            }
        } catch (const std::exception& error) {
            throw std::runtime_error("line " + std::to_string(at) + ": " + error.what());
        }
    }
    check(s);
    return s;
}
