#include "launch/report_page.h"

namespace reprise {

const char kReportStyle[] = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b1f24; --soft: #59636e; --line: #dde1e6; --warn: #fff6e0; --warn-line: #d9a21b;
  --c0: #3566b0; --c1: #d97a20; --c2: #2f8f63; --c3: #b9407a; --c4: #7a5bb5; --c5: #1f93a3; --c6: #a98a12; --c7: #88919c;
  --none: #e6e9ed;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1216; --card: #181c22; --ink: #e7eaee; --soft: #9aa4b0; --line: #2c333c; --warn: #2d2512; --warn-line: #c9972a;
    --c0: #6f9ee8; --c1: #f0a050; --c2: #58bd8d; --c3: #e27ba9; --c4: #aa8ee6; --c5: #50c0cf; --c6: #d6b840; --c7: #8d97a3;
    --none: #2a3038;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", "DejaVu Sans", sans-serif;
}
main { max-width: 1160px; margin: 0 auto; padding: 28px 20px 56px; }
h1 { font-size: 1.75rem; line-height: 1.2; letter-spacing: -0.01em; margin: 0 0 6px; }
h2 { font-size: 1.05rem; line-height: 1.3; margin: 0 0 2px; }
p { margin: 0; }
.soft { color: var(--soft); font-size: 0.875rem; }
header { margin-bottom: 20px; }
.warnings { list-style: none; margin: 0 0 20px; padding: 0; display: grid; gap: 8px; }
.warnings li {
  background: var(--warn); border-left: 4px solid var(--warn-line); border-radius: 6px; padding: 10px 14px;
  overflow-wrap: anywhere;
}
.well { margin: 0 0 20px; color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 12px; margin: 0 0 16px; }
.tile, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 12px 14px; min-width: 0; }
.tile dt { color: var(--soft); font-size: 0.8125rem; }
.tile dd { margin: 2px 0 0; }
.tile .value { font-size: 1.25rem; font-weight: 600; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tile .value small { font-size: 0.8125rem; font-weight: 500; color: var(--soft); }
.grid { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; }
section { padding: 16px 18px 18px; min-width: 0; display: flex; flex-direction: column; }
.wide { grid-column: 1 / -1; }
.chart { position: relative; height: 280px; flex: 1 0 auto; margin-top: 12px; }
.chart canvas { position: absolute; inset: 0; }
.bar { display: flex; height: 26px; border-radius: 6px; overflow: hidden; margin: 14px 0 12px; background: var(--none); }
.bar span { min-width: 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.9375rem; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 0.8125rem; }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: break-word; }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; white-space: nowrap; padding-right: 0; padding-left: 10px; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 8px; background: var(--none); }
.strip {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(var(--cell), 1fr)); gap: 6px 3px; margin: 14px 0 12px;
}
.strip i { display: grid; grid-template-rows: 18px 9px 9px; gap: 2px; }
.strip b { border-radius: 3px; background: var(--none); }
.legend { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 6px 20px; margin: 0 0 12px; }
.legend p { font-size: 0.875rem; }
.k0 { background: var(--c0) !important; } .k1 { background: var(--c1) !important; }
.k2 { background: var(--c2) !important; } .k3 { background: var(--c3) !important; }
.k4 { background: var(--c4) !important; } .k5 { background: var(--c5) !important; }
.k6 { background: var(--c6) !important; } .k7 { background: var(--c7) !important; }
.meter { height: 14px; border-radius: 7px; background: var(--none); overflow: hidden; margin: 14px 0 8px; }
.meter span { display: block; height: 100%; background: var(--c0); }
summary { cursor: pointer; font-weight: 600; }
details table { margin-top: 10px; }
.settings td:first-child { color: var(--soft); width: 1%; padding-right: 16px; }
.settings td:last-child { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
code { font: 0.875em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
footer { margin-top: 20px; }
@media (max-width: 760px) {
  main { padding: 20px 14px 40px; }
  .grid { grid-template-columns: minmax(0, 1fr); gap: 12px; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px; }
  .tile .value { font-size: 1.125rem; }
  section { padding: 14px 14px 16px; }
  .chart { height: 240px; }
  .memory { height: 380px; }
  details table { font-size: 0.875rem; }
  details th, details td { padding-right: 8px; }
}
)css";

}  // namespace reprise
