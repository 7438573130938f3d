// SPDX-License-Identifier: Apache-2.0
// The curves of a report, drawn by uPlot from the JSON of #curves.
"use strict";
(() => {
  const {runs, metrics} = JSON.parse(document.getElementById("curves").textContent);
  const several = runs.length > 1;

  // What a curve can be drawn over.
  const AXES = [
    {key: "step", label: "step"},
    {key: "seconds", label: "time", unit: timeUnit},
    {key: "flops_executed", label: "executed work", unit: (most) => siUnit(most, "FLOP")},
    {key: "epoch", label: "epoch"},
  ];
  // The curves. `splits`: of which lines; null: of all.
  const CHARTS = [
    {title: "loss", keys: ["loss"], splits: null, canBeLog: true},
    ...metrics.map((key) => ({title: key, keys: [key], splits: null})),
    {title: "bytes sent by all ranks", keys: ["wire_bytes", "wire_bytes_dense"],
     names: ["sent", "a dense exchange"], splits: ["train"], text: bytesText, log: true},
    {title: "samples per second", keys: ["samples_per_s"], splits: ["train"],
     unit: (most) => siUnit(most, "/s")},
    {title: "learning rate", keys: ["lr"], splits: ["train"]},
  ];
  const SPLIT_ORDER = ["train", "valid", "test"];

  // A unit in which the largest value is readable: [factor, name].
  function timeUnit(most) {
    return most < 200 ? [1, "s"] : most < 12000 ? [60, "min"] : [3600, "h"];
  }
  function siUnit(most, name) {
    const power = most > 0 ? Math.min(6, Math.max(0, Math.floor(Math.log10(most) / 3))) : 0;
    return [1000 ** power, ["", "k", "M", "G", "T", "P", "E"][power] + name];
  }
  // Decimal, as the ticks of a logarithmic scale are.
  function bytesText(value) {
    if (value == null) return "–";
    const [divisor, unit] = siUnit(value, "B");
    return `${digits(value / divisor)} ${unit}`;
  }
  const digits = (value) => value == null ? "–" : String(Number(value.toPrecision(4)));
  const css = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // The curves of a chart: {label, x, y, run, index, split}, whole ones only.
  function curvesOf(chart, axis) {
    const curves = [];
    runs.forEach((run, number) => {
      const splits = Object.keys(run.splits).sort(
        (a, b) => SPLIT_ORDER.indexOf(a) - SPLIT_ORDER.indexOf(b));
      splits.filter((s) => !chart.splits || chart.splits.includes(s)).forEach((split) => {
        chart.keys.forEach((key, index) => {
          const columns = run.splits[split];
          if (!columns[key] || !columns[axis.key]) return;
          const points = columns[axis.key].map((x, i) => [x, columns[key][i]])
            .filter(([x, y]) => x != null && y != null && !(chart.log && y <= 0))
            // Evaluations leave the clock and the FLOPs where they were.
            .filter(([x], i, all) => i + 1 === all.length || all[i + 1][0] > x);
          if (points.length === 0) return;
          const what = chart.names ? chart.names[index] : split;
          curves.push({label: several ? `${run.name} ${what}` : what, points,
                       run: number, index, split});
        });
      });
    });
    return curves;
  }

  function styleOf(curve, chart) {
    const hue = several ? curve.run : chart.names ? curve.index : SPLIT_ORDER.indexOf(curve.split);
    const round = several ? Math.floor(curve.run / 8) : 0;
    const evaluated = curve.split !== "train";
    const few = curve.points.length < 60;
    return {
      label: curve.label,
      stroke: css(`--c${((hue % 8) + 8) % 8}`),
      width: evaluated ? 2 : several && chart.splits === null ? 1 : 1.5,
      dash: curve.index > 0 ? [6, 4] : several && chart.splits === null && !evaluated ? [2, 3] :
        round > 0 ? [10, 3 * round] : undefined,
      points: {show: curve.points.length === 1 || (evaluated && few), size: 6},
      value: (plot, value) => (chart.text || digits)(value),
    };
  }

  // As wide as the longest label.
  function labelWidth(plot, labels, side, cycle) {
    if (cycle > 1) return plot.axes[side]._size;
    const axis = plot.axes[side];
    plot.ctx.font = axis.font[0];
    const widths = (labels || []).map((text) => plot.ctx.measureText(text || "").width);
    return Math.ceil(axis.ticks.size + axis.gap + Math.max(0, ...widths) / devicePixelRatio);
  }

  function draw(figure, chart, axis, log) {
    const curves = curvesOf(chart, axis);
    figure.hidden = curves.length === 0;
    if (figure.plot) figure.plot.destroy();
    figure.plot = null;
    if (figure.hidden) return;
    const all = curves.flatMap((curve) => curve.points);
    const [xDivisor, xUnit] = axis.unit ? axis.unit(Math.max(...all.map((p) => p[0]))) : [1, ""];
    const [yDivisor, yUnit] = chart.unit ? chart.unit(Math.max(...all.map((p) => p[1]))) : [1, ""];
    const data = uPlot.join(curves.map(({points}) => [
      points.map((p) => p[0] / xDivisor), points.map((p) => p[1] / yDivisor)]));
    figure.querySelector("figcaption").innerHTML = "";
    figure.querySelector("figcaption").append(
      chart.title, Object.assign(document.createElement("span"), {
        textContent: (yUnit ? `, ${yUnit}` : "") + ` over ${axis.label}` + (xUnit ? `, ${xUnit}` : "")}));
    const look = {
      stroke: css("--soft"), font: "13px system-ui, sans-serif", gap: 6,
      grid: {stroke: css("--line"), width: 1}, ticks: {stroke: css("--line"), width: 1, size: 5},
    };
    const place = figure.querySelector("div");
    figure.plot = new uPlot({
      width: place.clientWidth, height: heightFor(place.clientWidth),
      padding: [12, 14, 0, 4],
      scales: {x: {time: false}, y: log ? {distr: 3} : {}},
      axes: [
        {...look, size: 32, values: textsOf(short)},
        {...look, size: labelWidth, values: textsOf(chart.text || short),
         // Of a logarithmic scale the powers of ten are enough.
         ...(log && wide(all) ? {splits: decades} : {})},
      ],
      series: [
        {label: xUnit ? `${axis.label} [${xUnit}]` : axis.label, value: (plot, x) => digits(x)},
        ...curves.map((curve) => ({...styleOf(curve, chart), spanGaps: true})),
      ],
      cursor: {sync: {key: "report"}, points: {size: 7}},
    }, data, place);
  }

  const textsOf = (text) => (plot, ticks) => ticks.map((t) => t == null ? "" : text(t));
  const wide = (points) => {
    const y = points.map((p) => p[1]);
    return Math.max(...y) > 100 * Math.min(...y);
  };
  function decades(plot, side, least, most) {
    const first = Math.ceil(Math.log10(least) - 1e-9), last = Math.floor(Math.log10(most) + 1e-9);
    const stride = Math.ceil((last - first + 1) / 7);
    const ticks = [];
    for (let power = first; power <= last; power += stride) ticks.push(10 ** power);
    return ticks;
  }
  const heightFor = (width) => Math.round(Math.min(320, Math.max(200, width * 0.5)));
  function short(value) {
    const size = Math.abs(value);
    if (size >= 1e6) return digits(value / 1e6) + " M";
    if (size >= 1e4) return digits(value / 1e3) + " k";
    return size > 0 && size < 1e-4 ? value.toExponential(0) : digits(value);
  }

  // The controls: which axis, and whether losses are on a logarithmic scale.
  const controls = document.getElementById("controls");
  const choices = AXES.filter((axis) => CHARTS.some((chart) => curvesOf(chart, axis).length > 0));
  const group = document.createElement("fieldset");
  group.append(Object.assign(document.createElement("legend"), {textContent: "horizontal axis"}));
  const control = (type, name, text, checked, parent) => {
    const input = Object.assign(document.createElement("input"), {type, name, checked});
    const label = document.createElement("label");
    label.append(input, type === "checkbox" ? ` ${text}` : text);
    parent.append(label);
    return input;
  };
  const radios = choices.map((axis, i) => control("radio", "axis", axis.label, i === 0, group));
  controls.append(group);
  const logLoss = control("checkbox", "log", "logarithmic loss", false, controls);
  controls.append(Object.assign(document.createElement("span"), {
    className: "note", textContent: "drag to zoom, double-click to go back, click a name to hide it"}));

  const figures = CHARTS.map((chart) => {
    const figure = document.createElement("figure");
    figure.append(document.createElement("figcaption"), document.createElement("div"));
    figure.setAttribute("aria-label", chart.title);
    document.getElementById("charts").append(figure);
    return figure;
  });
  function drawAll() {
    const axis = choices[Math.max(0, radios.findIndex((radio) => radio.checked))];
    if (!axis) return;
    figures.forEach((figure, i) => draw(
      figure, CHARTS[i], axis, CHARTS[i].log || (CHARTS[i].canBeLog && logLoss.checked)));
  }
  drawAll();
  controls.addEventListener("change", drawAll);
  controls.addEventListener("submit", (event) => event.preventDefault());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // The colours of a canvas are chosen before paper is known to be white.
  const printing = (yes) => {
    document.documentElement.classList.toggle("printing", yes);
    drawAll();
  };
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
  new ResizeObserver(() => figures.forEach((figure) => {
    const width = figure.querySelector("div").clientWidth;
    if (figure.plot && width > 0 && width !== figure.plot.width) {
      figure.plot.setSize({width, height: heightFor(width)});
    }
  })).observe(document.getElementById("charts"));
})();
