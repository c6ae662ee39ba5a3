// Draws the plots of the page from its data, in the colours of its theme.
"use strict";

(() => {
    const { markers, dashes, plots } = JSON.parse(document.getElementById("data").textContent);
    const root = document.documentElement;
    const HEIGHT = 300;
    const shapes = markers.map((path) => new Path2D(path));
    const lines = dashes.map((dash) => (dash === "none" ? [] : dash.split(" ").map(Number)));
    const drawn = [];

    const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

    // Three digits that count.
    const digits = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3))));

    // The data of uPlot: all places of all series, and a row for each series, with gaps where it has none.
    function columns(series) {
        const places = [...new Set(series.flatMap(({ spots }) => spots.map(([x]) => x)))].sort((a, b) => a - b);
        const rows = series.map(({ spots }) => {
            const at = new Map(spots.map(([x, y]) => [x, y]));
            return places.map((x) => at.get(x) ?? null);
        });
        return [places, ...rows];
    }

    // 1, 2 and 5 times each power of ten between two numbers.
    function decades(from, to) {
        const marks = [];
        for (let power = 10 ** Math.floor(Math.log10(from)); power <= to; power *= 10) {
            marks.push(...[1, 2, 5].map((digit) => digit * power).filter((mark) => mark >= from && mark <= to));
        }
        return marks;
    }

    // Keeps the marks that have room for their text. The last one is kept in any case.
    function apart(plot, marks) {
        const room = 32;
        let next = Infinity;
        const kept = marks.toReversed().map((mark) => {
            const at = plot.valToPos(mark, "x");
            if (next - at < room) {
                return null;
            }
            next = at;
            return mark;
        });
        return kept.toReversed();
    }

    function scales({ across, up, series }) {
        const spots = series.flatMap((one) => one.spots);
        const [xs, lows, highs] = [0, 2, 3].map((part) => spots.map((spot) => spot[part]));
        const [left, right] = [Math.min(...xs), Math.max(...xs)];
        const [low, high] = [Math.min(...lows), Math.max(...highs)];
        const widened = across.logarithmic ? [left / 1.15, right * 1.15] : [0, right * 1.05];
        const vertical = up.logarithmic ? [low / 1.4, high * 1.4] : [0, high * 1.08];
        return {
            x: { time: false, distr: across.logarithmic ? 3 : 1, log: 2, range: widened },
            y: { distr: up.logarithmic ? 3 : 1, range: vertical },
        };
    }

    // Draws markers and intervals over a series' line.
    function mark(plot, index, { look, spots }) {
        const { ctx } = plot;
        const ratio = uPlot.pxRatio;
        ctx.save();
        ctx.fillStyle = ctx.strokeStyle = colour(`--look${look}`);
        ctx.lineWidth = 1.25 * ratio;
        for (const [x, y, low, high] of spots) {
            const left = plot.valToPos(x, "x", true);
            const [middle, bottom, top] = [y, low, high].map((value) => plot.valToPos(value, "y", true));
            ctx.beginPath();
            if (bottom - top > 2 * ratio) {
                for (const end of [bottom, top]) {
                    ctx.moveTo(left - 4 * ratio, end);
                    ctx.lineTo(left + 4 * ratio, end);
                }
                ctx.moveTo(left, bottom);
                ctx.lineTo(left, top);
                ctx.stroke();
            }
            ctx.setTransform(ratio, 0, 0, ratio, left, middle);
            ctx.fill(shapes[look]);
            ctx.setTransform(1, 0, 0, 1, 0, 0);
        }
        ctx.restore();
    }

    // Shows the results at the place nearest to the pointer, the greatest first.
    function tip(element, { across, up, series }) {
        const box = document.createElement("div");
        box.className = "tip";
        box.hidden = true;
        element.append(box);
        return (plot) => {
            const { idx, left } = plot.cursor;
            const x = idx == null || left < 0 ? undefined : plot.data[0][idx];
            const results = series.flatMap(({ name, look, spots }) =>
                spots.filter((spot) => spot[0] === x).map((spot) => ({ name, look, value: spot[1] })),
            );
            box.hidden = results.length === 0;
            if (box.hidden) {
                return;
            }
            const head = document.createElement("b");
            head.textContent = `${digits(x)} ${across.label}`;
            const rows = results.sort((a, b) => b.value - a.value).map(({ name, look, value }) => {
                const row = document.createElement("div");
                const [who, what] = [name, `${digits(value)} ${up.unit}`].map((text) => {
                    const part = document.createElement("span");
                    part.textContent = text;
                    return part;
                });
                who.className = `look${look}`;
                row.append(who, what);
                return row;
            });
            box.replaceChildren(head, ...rows);
            const at = plot.valToPos(x, "x") + plot.bbox.left / uPlot.pxRatio;
            const over = at + box.offsetWidth + 12 > element.clientWidth;
            box.style.left = `${Math.max(0, over ? at - box.offsetWidth - 12 : at + 12)}px`;
            box.style.top = "12px";
        };
    }

    function draw(data) {
        const element = document.getElementById(data.id);
        element.replaceChildren();
        const [text, rule] = [colour("--quiet"), colour("--rule")];
        const axis = { stroke: text, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
        const places = columns(data.series)[0];
        const across = { ...axis, label: data.across.label, labelFont: axis.font, labelSize: 20, size: 30, grid: { show: false } };
        if (data.across.logarithmic) {
            across.splits = () => places;
            across.filter = (plot, splits) => splits;
            across.values = (plot, splits) => apart(plot, splits).map((x) => (x == null ? "" : String(x)));
        }
        const up = { ...axis, size: 46, values: (plot, splits) => splits.map((value) => (value == null ? "" : String(Number(value.toPrecision(6))))) };
        if (data.up.logarithmic) {
            up.splits = (plot, index, from, to) => decades(from, to);
            up.filter = (plot, splits) => splits;
        }
        const series = data.series.map((one) => ({
            label: one.name,
            stroke: colour(`--look${one.look}`),
            width: one.look === 0 ? 2.5 : 1.5,
            dash: lines[one.dashes],
            spanGaps: true,
            points: { show: false },
        }));
        const options = {
            width: element.clientWidth,
            height: HEIGHT,
            legend: { show: false },
            cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { show: false } },
            scales: scales(data),
            axes: [across, up],
            series: [{}, ...series],
            hooks: {
                drawSeries: [(plot, index) => mark(plot, index, data.series[index - 1])],
                setCursor: [tip(element, data)],
            },
        };
        const plot = new uPlot(options, columns(data.series), element);
        drawn.push({ plot, element });
    }

    function drawAll() {
        drawn.splice(0).forEach(({ plot }) => plot.destroy());
        plots.forEach(draw);
    }

    // The theme: the system's, until the reader chooses.
    const button = document.getElementById("theme");
    const dark = matchMedia("(prefers-color-scheme: dark)");

    function setTheme(theme) {
        root.dataset.theme = theme;
        button.textContent = theme === "dark" ? "Light" : "Dark";
        drawAll();
    }

    const ofSystem = () => (dark.matches ? "dark" : "light");
    button.hidden = false;
    button.addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
    dark.addEventListener("change", () => setTheme(ofSystem()));
    setTheme(ofSystem());

    let width = root.clientWidth;
    addEventListener("resize", () => {
        if (root.clientWidth !== width) {
            width = root.clientWidth;
            drawn.forEach(({ plot, element }) => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
        }
    });

    // Paper is white, and has no use for closed tables.
    let before;
    addEventListener("beforeprint", () => {
        before = root.dataset.theme;
        setTheme("light");
    });
    addEventListener("afterprint", () => setTheme(before));
})();
