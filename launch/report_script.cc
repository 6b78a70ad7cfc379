#include "launch/report_page.h"

namespace reprise {

const char kReportScript[] = R"js(
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  let charts = [];
  const digits = (value, most) => value.toLocaleString("en", { maximumFractionDigits: most });

  function draw() {
    charts.forEach((chart) => chart.destroy());
    charts = [];
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue("--" + name).trim();
    const narrow = window.innerWidth < 760;
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.color = color("soft");
    Chart.defaults.borderColor = color("line");

    const axis = (title, most) => ({
      title: { display: true, text: title },
      ticks: { maxTicksLimit: narrow ? 6 : 9, maxRotation: 0, includeBounds: false, callback: (value) => digits(value, most) },
      grid: { color: color("line") },
    });
    const line = (label, name, points, more) => ({
      label, data: points, borderColor: color(name), backgroundColor: color(name), borderWidth: 2, pointRadius: 0,
      pointHitRadius: 8, pointStyle: "rect", spanGaps: false, ...more,
    });
    const options = (x, y, unit, most) => ({
      animation: false, maintainAspectRatio: false, parsing: false, normalized: true,
      interaction: { mode: "index", intersect: false, axis: "x" },
      scales: { x: { type: "linear", ...x }, y },
      plugins: {
        legend: { position: "bottom", labels: { boxHeight: 8, usePointStyle: true, padding: 12 } },
        tooltip: {
          callbacks: {
            title: (items) => items.length ? x.title.text + " " + digits(items[0].parsed.x, 3) : "",
            label: (item) => item.dataset.label + ": " + digits(item.parsed.y, most) + " " + unit,
          },
        },
      },
    });
    const add = (id, config) => {
      const canvas = document.getElementById(id);
      if (canvas) charts.push(new Chart(canvas, config));
    };
    const points = (values) => data.step.map((step, i) => ({ x: step, y: values[i] === null ? NaN : values[i] }));
    const ends = data.step.length ? { min: data.first_step, max: data.step[data.step.length - 1] } : {};
    const steps = { ...axis("step", 0), ...(ends.max > ends.min ? ends : {}) };
    const few = data.step.length < 40 ? { pointRadius: 2 } : {};

    const losses = [line("training", "c0", points(data.loss), few)];
    if (data.validation.length) {
      losses.push(line("validation", "c1", data.validation.map(([x, y]) => ({ x, y: y === null ? NaN : y })),
                       { pointRadius: 4, pointStyle: "rectRot" }));
    }
    add("loss", { type: "line", data: { datasets: losses },
                  options: options(steps, axis("nats/label", 3), "nats/label", 4) });
    const speed = options(steps, { ...axis("tokens/s", 0), beginAtZero: true }, "tokens/s", 0);
    speed.plugins.legend.display = false;
    add("speed", { type: "line", data: { datasets: [line("speed", "c2", points(data.speed), few)] }, options: speed });
    const norm = options(steps, { ...axis("norm, no unit", 3), beginAtZero: true }, "(no unit)", 4);
    norm.plugins.legend.display = false;
    add("norm", { type: "line", data: { datasets: [line("gradient norm", "c4", points(data.norm), few)] }, options: norm });

    if (data.memory) {
      const memory = data.memory;
      const at = (values) => memory.ms.map((x, i) => ({ x, y: values[i] }));
      const kinds = memory.kinds.map((kind) => line(kind.name, kind.color, at(kind.values), {
        fill: true, stack: "live", stepped: "before", borderWidth: 0, pointHitRadius: 0,
      }));
      const across = (label, name, value) => line(label, name, [memory.ms[0], memory.ms[memory.ms.length - 1]].map(
        (x) => ({ x, y: value })), {
        fill: false, stack: label, borderDash: [6, 4], borderWidth: 1.5, pointStyle: "line",
      });
      const levels = [across("predicted peak", "ink", memory.peak)];
      if (memory.budget !== null) levels.push(across("budget", "c3", memory.budget));
      const chart = options({ ...axis("ms of the step", 3), min: memory.ms[0], max: memory.ms[memory.ms.length - 1] },
                            { ...axis(memory.unit, 2), stacked: true, beginAtZero: true, grace: "4%" }, memory.unit, 2);
      chart.plugins.tooltip.filter = (item) => item.parsed.y !== 0;
      add("memory", { type: "line", data: { datasets: [...levels, ...kinds] }, options: chart });
    }
  }
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
)js";

}  // namespace reprise
