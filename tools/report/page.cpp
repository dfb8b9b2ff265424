// The page around reports.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.hpp"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tools/report/svg.hpp"

namespace weir {
namespace {

// --page, --ink and --rule are the pictures' own (vector.hpp).
constexpr const char* kStyle =
    R"(*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;margin:24px auto;padding:0 16px;max-width:1120px;)"
    R"(overflow-wrap:anywhere;background:var(--page);color:var(--ink)}
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:26px 0 6px}
h3{font-size:15px;margin:12px 0 4px}p{margin:6px 0}
.wide{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:13px;overflow-wrap:normal}
th,td{padding:3px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--page)}
.words td+td{white-space:normal;overflow-wrap:anywhere}
@media(max-width:600px){th,td:first-child{white-space:normal}th,td{padding:3px 4px}
th:first-child,td:first-child{max-width:38vw}}
.best{font-weight:600}.note,figcaption{color:var(--soft);font-size:13px}
figure{margin:6px 0}svg{display:block;max-width:none}.chart{overflow-x:auto}
.phone,.paper{display:none}@media(max-width:1120px){.paper{display:block}.desk{display:none}}
@media(max-width:750px){.phone{display:block}.paper{display:none}}
.timeline text{pointer-events:none}
figcaption button{font:inherit;color:inherit;background:none;border:1px solid var(--rule);)"
    R"(border-radius:4px;min-width:28px;margin-right:4px}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:8px 16px;)"
    R"(margin:10px 0}
dt{color:var(--soft);font-size:13px}dd{margin:0;font-size:17px}
@media print{.phone,.desk{display:none}.paper{display:block}
body{margin:0;padding:0;max-width:none}.wide,.chart{overflow:visible}
svg{max-width:100%;height:auto}table{font-size:9px}th,td{white-space:normal;padding:2px 4px}
h2,h3{break-after:avoid}figure,tr,dl{break-inside:avoid}.timeline figcaption{display:none}}
.made{grid-template-columns:auto 1fr;gap:2px 12px}.made dd{font-size:13px})";

// Zooming changes what part of the picture its frame shows: `part` is x, y, width, height.
constexpr const char* kScript = R"js(
for (const figure of document.querySelectorAll('.timeline')) {
  const svg = figure.querySelector('svg'), says = figure.querySelector('output');
  const hint = says.textContent;
  const whole = svg.getAttribute('viewBox').split(' ').map(Number);
  let part = [...whole];
  const show = (x, y, width) => {
    const height = width * whole[3] / whole[2];
    const within = (at, size, all) => Math.min(Math.max(at, 0), all - size);
    part = [within(x, width, whole[2]), within(y, height, whole[3]), width, height];
    svg.setAttribute('viewBox', part.join(' '));
  };
  const zoom = (factor, across, down) => {
    const width = Math.min(Math.max(part[2] / factor, whole[2] / 200), whole[2]);
    const height = width * whole[3] / whole[2];
    show(part[0] + (part[2] - width) * across, part[1] + (part[3] - height) * down, width);
  };
  const place = event => {
    const frame = svg.getBoundingClientRect();
    return [(event.clientX - frame.x) / frame.width, (event.clientY - frame.y) / frame.height];
  };
  svg.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, ...place(event));
  }, {passive: false});
  svg.addEventListener('dblclick', event => zoom(2, ...place(event)));
  svg.addEventListener('pointermove', event => {
    const title = event.target.querySelector(':scope > title');
    says.textContent = title ? title.textContent : hint;
    if (!(event.buttons & 1)) return;
    const scale = part[2] / svg.getBoundingClientRect().width;
    show(part[0] - event.movementX * scale, part[1] - event.movementY * scale, part[2]);
  });
  for (const button of figure.querySelectorAll('button')) {
    const factor = Number(button.value);
    button.addEventListener('click', () => factor ? zoom(factor, 0.5, 0.5)
                                                  : show(0, 0, whole[2]));
  }
}
)js";

std::string colours_of_pages() {
  const auto colour = [](const char* name, const Paint& paint, const Colour Paint::*page) {
    return fmt::format("--{}:{};", name, css(paint.*page));
  };
  const auto all = [&](const Colour Paint::*page) {
    return colour("page", kPage, page) + colour("ink", kInk, page) + colour("rule", kGrid, page) +
           colour("soft", {{100, 100, 100}, {168, 172, 178}}, page);
  };
  return fmt::format(
      ":root{{color-scheme:light dark;{}}}\n@media(prefers-color-scheme:dark){{:root{{{}}}}}\n",
      all(&Paint::light), all(&Paint::dark));
}

std::string made_by(const Provenance& p) {
  std::string rows;
  const auto row = [&rows](const char* name, const std::string& value) {
    if (value.empty()) return;
    rows += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escape(value));
  };
  row("command", p.command);
  row("date", p.date);
  row("version", p.version);
  row("seed", std::to_string(p.seed));
  return "<h2>How this page was made</h2>\n<dl class=\"made\">\n" + rows + "</dl>\n";
}

}  // namespace

std::string html_page(const std::string& title, const std::string& body,
                      const Provenance& provenance) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>{0}</title><style>{1}{2}</style></head><body>\n"
      "<h1>{0}</h1>\n{3}{4}<script>{5}</script>\n{6}\n",
      escape(title), colours_of_pages(), kStyle, body, made_by(provenance), kScript, kPageEnd);
}

std::string data_opening(const std::string& id) {
  return fmt::format("<script type=\"application/json\" id=\"{}\">", id);
}

std::string data_part(const std::string& id, const nlohmann::ordered_json& json) {
  // A file's name may be no UTF-8: what is none of it is shown as what it is not.
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");
  return data_opening(id) + text + "</script>\n";
}

std::string html_table(const std::string& rows) {
  return "<div class=\"wide\"><table>" + rows + "</table></div>\n";
}

std::string words_table(const std::string& rows) {
  return "<div class=\"wide\"><table class=\"words\">" + rows + "</table></div>\n";
}

namespace {

// Text keeps its size: a picture that is stretched has not.
std::string figure_of(const std::function<Drawing(double)>& of_width) {
  const auto drawn = [&of_width](const char* where, double width) {
    return fmt::format("<div class=\"{}\">{}</div>", where, to_svg(of_width(width)));
  };
  return "<figure class=\"chart\">" + drawn("phone", kPageChart) + drawn("paper", kPaperChart) +
         drawn("desk", kWidePageChart) + "</figure>\n";
}

}  // namespace

std::string chart_figure(Chart chart) {
  return figure_of([&chart](double width) {
    chart.width = width;
    return draw_chart(chart);
  });
}

std::string bars_figure(BarChart chart) {
  return figure_of([&chart](double width) {
    chart.width = width;
    return draw_bars(chart);
  });
}

std::string timeline_figure(const Drawing& drawing) {
  return "<figure class=\"timeline\"><div class=\"wide\">" + to_svg(drawing) +
         "</div>\n<figcaption><button value=\"2\" title=\"larger\">+</button>"
         "<button value=\"0.5\" title=\"smaller\">&minus;</button>"
         "<button value=\"0\" title=\"the whole step\">whole</button> "
         "<output>Point at an action; zoom by Ctrl and the wheel or a double click; drag to "
         "move.</output></figcaption></figure>\n";
}

}  // namespace weir
