# Reduces the results.json that `testbed compare` writes to the form of README.md: medians over the rounds, ratios as
# median, least and greatest. Use:
#   jq -r --arg command 'testbed compare ...' -f bench/reduce-compare.jq RAW/results.json > DIRECTORY/results.json
def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
def places($n): . * pow(10; $n) | round / pow(10; $n);
def name: if type == "string" then . else "millrace \(.millrace)" end;
# A figure of each contestant; a contestant without it is left out.
def each(figure; $n): map({name: .contestant | name, value: figure} | select(.value)) | group_by(.name)
    | map({(.[0].name): (map(.value) | median | places($n))}) | add;
def lines: "{\n" + (del(.figures) | to_entries | map("  \(.key | tojson): \(.value | tojson),\n") | add)
    + "  \"figures\": [\n    " + (.figures | map(tojson) | join(",\n    ")) + "\n  ]\n}";
([.outcomes[] | .runs[].latency.nanoseconds, .latency_after.nanoseconds] | [min, max] | map(round)) as $apart
| {rig: ((.rig | del(.date, .commit) | .tsc_ghz |= places(2)) + {cores_ns: $apart}
        + {line_cycles: (.transfer | values | map_values(round))} | with_entries(select(.value))),
   date: .rig.date, commit: .rig.commit, command: $command,
   figures: [.outcomes[] | (.scenario | {ring, bytes: .size, touched: .touch}) + (.runs | {
       mpps: each(.mpps; 2),
       ratio: ([_nwise(2) | .[0].mpps / .[1].mpps] | [median, min, max] | map(places(2))),
       cycles: each(.cycles_per_packet; 1),
       load_idle_percent: each(.load.idle_cycles | values | 100 * .; 0),
       lost: each(.load.lost | values | select(. > 0); 0)} | with_entries(select(.value)))]}
| lines
