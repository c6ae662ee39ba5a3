#!/usr/bin/env bash
# Draws what sending and receiving a packet must cost at least for aggregation to pay, from what joining and splitting it
# cost. Reads the output of `cargo bench -p millrace-paflow` and writes SVG.
#
# usage: bench/break-even.sh < cost.txt > break-even.svg
set -euo pipefail
exec awk '
function x(size) { return 60 + (size - 64) / 640 * 400 }
# Nanoseconds from 1 to 3000, in decades.
function y(ns) { return 250 - log(ns) / log(3000) * 220 }
/^(join|split), / { cost[$5] += $(NF - 3); count[$5] = $2; if ($1 == "join,") sizes[++n] = $5 }
END {
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 300\" font-family=\"sans-serif\" font-size=\"12\">"
    print "<style>text{fill:#444}@media(prefers-color-scheme:dark){text{fill:#bbb}}</style>"
    for (ns = 1; ns <= 1000; ns *= 10) {
        printf "<path d=\"M60 %.1fH460\" stroke=\"#8884\"/><text x=\"54\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", y(ns), y(ns) + 4, ns
    }
    for (i = 1; i <= n; i++) {
        printf "<text x=\"%.1f\" y=\"268\" text-anchor=\"middle\">%d</text>\n", x(sizes[i]), sizes[i]
        even = cost[sizes[i]] * count[sizes[i]] / (count[sizes[i]] - 1)
        line = line sprintf("%s%.1f %.1f", i == 1 ? "M" : "L", x(sizes[i]), y(even))
        dots = dots sprintf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#c40\"/>", x(sizes[i]), y(even))
    }
    printf "<path d=\"%s\" fill=\"none\" stroke=\"#c40\" stroke-width=\"2\"/>%s\n", line, dots
    print "<text x=\"60\" y=\"16\">ns a packet and hop, sending and receiving it: above the line, aggregation pays</text>"
    print "<text x=\"260\" y=\"290\" text-anchor=\"middle\">bytes a packet</text>"
    m = split(PATHS, known, ";")
    for (i = 1; i <= m; i++) {
        split(known[i], path, "=")
        printf "<path d=\"M60 %.1fH460\" stroke=\"#06a\" stroke-dasharray=\"5 3\"/><text x=\"466\" y=\"%.1f\">%s, %d ns</text>\n", y(path[2]), y(path[2]) + 4, path[1], path[2]
    }
    print "</svg>"
}' PATHS="${PATHS:-}" -
