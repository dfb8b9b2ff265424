// Pictures of the page, as SVG: stacked bars, a waterfall, points, a line of losses.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const SVG = 'http://www.w3.org/2000/svg';
// Told apart by those who see no red or green (Okabe and Ito).
const COLOURS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#f0e442', '#999999'];

function shape(name, words, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(words)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function picture(width, height, parts) {
  const svg = shape('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img'});
  svg.append(...parts);
  return svg;
}

const room = () => Math.max(320, Math.min(1080, document.body.clientWidth - 34));

// Bars of `rows` {name, parts: [number]}, a legend of `kinds`, and a line at `limit`.
function stackedBars(rows, kinds, limit, say) {
  const width = room(), left = 70, right = 84, bar = rows.length > 24 ? 10 : 18, gap = 4;
  const most = Math.max(limit || 0, ...rows.map(row => row.parts.reduce((a, b) => a + b, 0))) || 1;
  const scale = (width - left - right) / most, used = kinds.map((_, i) => rows.some(row => row.parts[i] > 0));
  const parts = [];
  let x = 0, y = 14;
  kinds.forEach((kind, i) => {
    if (!used[i]) return;
    const long = 24 + 7 * kind.length;
    if (x + long > width) [x, y] = [0, y + 18];
    parts.push(shape('rect', {x, y: y - 10, width: 11, height: 11, fill: COLOURS[i % COLOURS.length]}),
               shape('text', {x: x + 15, y}, kind));
    x += long;
  });
  y += 12;
  const top = y;
  for (const row of rows) {
    let at = left;
    parts.push(shape('text', {x: left - 6, y: y + bar - 4, 'text-anchor': 'end'}, row.name));
    row.parts.forEach((value, i) => {
      if (!value) return;
      const piece = shape('rect', {x: at, y, width: Math.max(0.5, value * scale), height: bar,
                                   fill: COLOURS[i % COLOURS.length]});
      piece.append(shape('title', {}, `${row.name}, ${kinds[i]}: ${say(value)}`));
      parts.push(piece);
      at += value * scale;
    });
    parts.push(shape('text', {x: at + 5, y: y + bar - 4}, say(row.parts.reduce((a, b) => a + b, 0))));
    y += bar + gap;
  }
  if (limit)
    parts.push(shape('line', {x1: left + limit * scale, x2: left + limit * scale, y1: top - 4, y2: y,
                              stroke: 'currentColor', 'stroke-dasharray': '4 3'}));
  return picture(width, y + 6, parts);
}

// `parts` {name, time}: each begins where the one before it ended.
function waterfallBars(parts, say) {
  const width = room(), left = Math.min(230, width * 0.42), right = 70;
  const ends = parts.reduce((all, part) => [...all, all[all.length - 1] + part.time], [0]);
  const low = Math.min(...ends), high = Math.max(...ends) || 1, scale = (width - left - right) / (high - low || 1);
  const drawn = [];
  parts.forEach((part, i) => {
    const y = 4 + i * 20, from = Math.min(ends[i], ends[i + 1]), x = left + (from - low) * scale;
    const long = Math.max(1, Math.abs(part.time) * scale);
    drawn.push(shape('text', {x: left - 8, y: y + 13, 'text-anchor': 'end'}, part.name),
               shape('rect', {x, y: y + 2, width: long, height: 14, fill: COLOURS[part.idle ? 5 : 0]}),
               shape('text', {x: x + long + 5, y: y + 13}, say(part.time)));
  });
  return picture(width, 8 + parts.length * 20, drawn);
}

// Three to seven round numbers between them.
function ticks(low, high) {
  const rough = (high - low) / 5 || Math.abs(high) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) all.push(at);
  return all;
}

// Points {x, y, title, kind} with axes that begin where the points do; `choose` is told one's index.
function scatter(points, names, say, choose) {
  const width = room(), height = 300, left = 76, bottom = 44, right = 16, top = 12;
  if (!points.length) return picture(width, 40, [shape('text', {x: 0, y: 20, class: 'soft'}, 'nothing yet')]);
  const span = values => {
    const low = Math.min(...values), high = Math.max(...values), pad = (high - low) * 0.08 || high * 0.1 || 1;
    return [low - pad, high + pad];
  };
  const [x0, x1] = span(points.map(p => p.x)), [y0, y1] = span(points.map(p => p.y));
  const at = p => [left + (p.x - x0) / (x1 - x0) * (width - left - right),
                   top + (y1 - p.y) / (y1 - y0) * (height - top - bottom)];
  const parts = [];
  for (const value of ticks(x0, x1)) {
    const [x] = at({x: value, y: y0});
    parts.push(shape('line', {x1: x, x2: x, y1: top, y2: height - bottom, stroke: 'var(--rule)'}),
               shape('text', {x, y: height - bottom + 16, 'text-anchor': 'middle', class: 'soft'}, say.x(value)));
  }
  for (const value of ticks(y0, y1)) {
    const [, y] = at({x: x0, y: value});
    parts.push(shape('line', {x1: left, x2: width - right, y1: y, y2: y, stroke: 'var(--rule)'}),
               shape('text', {x: left - 6, y: y + 4, 'text-anchor': 'end', class: 'soft'}, say.y(value)));
  }
  parts.push(shape('text', {x: (left + width - right) / 2, y: height - 8, 'text-anchor': 'middle'}, names.x),
             shape('text', {x: 12, y: (top + height - bottom) / 2, 'text-anchor': 'middle',
                            transform: `rotate(-90 12 ${(top + height - bottom) / 2})`}, names.y));
  points.forEach((p, i) => {
    const [cx, cy] = at(p);
    const dot = shape('circle', {cx, cy, r: 5, class: 'plan', tabindex: 0,
                                 fill: COLOURS[{front: 0, baseline: 5}[p.kind] ?? 7], 'fill-opacity': 0.85});
    dot.append(shape('title', {}, p.title));
    if (choose) {
      dot.addEventListener('click', () => choose(i));
      dot.addEventListener('keydown', event => event.key === 'Enter' && choose(i));
    }
    parts.push(dot);
  });
  return picture(width, height, parts);
}

// A line of a row's losses, as small as a word.
function sparkline(values) {
  const width = 90, height = 20, known = values.filter(Number.isFinite);
  if (known.length < 2) return document.createTextNode('');
  const low = Math.min(...known), high = Math.max(...known);
  const path = known.map((v, i) => `${i ? 'L' : 'M'}${(i / (known.length - 1) * width).toFixed(1)} ` +
                                   `${(height - 2 - (v - low) / (high - low || 1) * (height - 4)).toFixed(1)}`);
  return picture(width, height, [shape('path', {d: path.join(''), fill: 'none', stroke: COLOURS[0]})]);
}
