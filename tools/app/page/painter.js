// One drawing for the screen and for a file: a painter has box, line and text; the timeline and the
// chart are drawn with whichever is given.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const escaped = text => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
const FONT = 'Roboto, Helvetica, Arial, sans-serif';

function canvasPainter(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1, c = canvas.getContext('2d');
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  c.scale(ratio, ratio);
  // Colours and fonts are parsed when they are set: of 6,000 boxes only where they change.
  const now = {};
  const set = (key, value) => {
    if (now[key] !== value) c[key] = now[key] = value;
  };
  return {
    box(x, y, w, h, fill) {
      set('fillStyle', fill);
      c.fillRect(x, y, w, h);
    },
    line(points, stroke, width = 1, dashed = false) {
      c.strokeStyle = stroke;
      c.lineWidth = width;
      c.setLineDash(dashed ? [4, 3] : []);
      c.beginPath();
      points.forEach(([x, y], i) => i ? c.lineTo(x, y) : c.moveTo(x, y));
      c.stroke();
    },
    text(x, y, text, fill, size = 13, anchor = 'start') {
      set('fillStyle', fill);
      set('font', `${size}px ${FONT}`);
      set('textAlign', anchor === 'middle' ? 'center' : anchor);
      c.fillText(text, x, y);
    },
  };
}

function svgPainter(width, height) {
  const parts = [], n = value => String(Math.round(value * 100) / 100);
  return {
    box: (x, y, w, h, fill) =>
        parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" fill="${fill}"/>`),
    line: (points, stroke, width = 1, dashed = false) =>
        parts.push(`<polyline points="${points.map(([x, y]) => `${n(x)},${n(y)}`).join(' ')}" ` +
                   `fill="none" stroke="${stroke}" stroke-width="${width}"` +
                   `${dashed ? ' stroke-dasharray="4 3"' : ''}/>`),
    text: (x, y, text, fill, size = 13, anchor = 'start') =>
        parts.push(`<text x="${n(x)}" y="${n(y)}" fill="${fill}" font-size="${size}" ` +
                   `text-anchor="${anchor}">${escaped(text)}</text>`),
    finished: () => `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${n(width)} ${n(height)}" ` +
                    `width="${n(width)}" height="${n(height)}" font-family="${FONT}">\n` +
                    `${parts.join('\n')}\n</svg>\n`,
  };
}

// Steps of an axis: 1, 2 or 5 times a power of ten, at most `most` of them.
function ticks(top, most) {
  const raw = top / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(f => f * power >= raw * (1 - 1e-9));
  const all = [];
  for (let i = 0; i * step <= top * (1 + 1e-9); ++i) all.push(i * step);
  return all;
}

const LEFT = 52, RIGHT = 12, ROW = 20, TITLE = 22, HELD = 64, SCALE = 24, PANEL_GAP = 10;
const panelHeight = timed => TITLE + timed.schedule.ranks * ROW + HELD + PANEL_GAP;
const unitOfRank = s => s.ranks / s.stages / s.slices;  // of a rank's micro-batch, what a cell holds

// Panels under each other on one scale of time. Returns where each is, for those who point.
function drawTimelines(painter, panels, {width, cap, marked}) {
  const ink = colour('ink'), idle = colour('rule'), span = Math.max(...panels.map(p => p.step), 1);
  const x = ns => LEFT + ns / span * (width - LEFT - RIGHT);
  const fills = KINDS.map(k => colour(k)), ons = KINDS.map(k => colour(k + '-on'));
  const places = [];
  let y = 0;
  painter.box(0, 0, width, panels.reduce((sum, p) => sum + panelHeight(p), SCALE), colour('page'));
  for (const timed of panels) {
    const s = timed.schedule;
    const notes = PLAN ? PLAN.notes.map(note => `; ${note}`).join('') : '';
    painter.text(LEFT, y + 15, `${s.name}: ${ms(timed.step)}, bubble ${percent(timed.bubble)}${notes}`, ink, 14);
    places.push({timed, top: y + TITLE});
    s.orders.forEach((order, rank) => {
      const top = y + TITLE + rank * ROW;
      painter.text(LEFT - 6, top + 13, `rank ${rank}`, ink, 13, 'end');
      painter.box(LEFT, top, width - LEFT - RIGHT, ROW - 2, idle);
      // Kind by kind, so that a rank's boxes change their colour a few times only.
      for (const kind of [F, B, I, W, R, O]) drawKind(painter, timed, rank, kind, {top, x, fills, ons});
    });
    y += TITLE + s.ranks * ROW;
    const room = {top: y + 4, height: HELD - 14, x, cap, ink};
    if (timed.memory) drawMemory(painter, timed, room);
    else drawHeld(painter, timed, room);
    y += HELD + PANEL_GAP;
  }
  for (const tick of ticks(span, Math.max(2, Math.floor(width / 120))))
    painter.text(x(tick), y + 13, ms(tick), ink, 13, tick ? 'middle' : 'start');
  if (marked) drawMarked(painter, places, marked, x, ink);
  return {places, x, nsAt: at => (at - LEFT) / (width - LEFT - RIGHT) * span};
}

function drawKind(painter, timed, rank, kind, {top, x, fills, ons}) {
  const s = timed.schedule, units = unitsOf(s), bars = [], texts = [];
  s.orders[rank].forEach((action, at) => {
    if (kindOf(action) !== kind) return;
    const left = x(timed.starts[rank][at]), w = x(timed.ends[rank][at]) - left, wide = w > 4 ? w - 1 : w;
    painter.box(left, top, wide, ROW - 2, fills[kind]);
    // Every other chunk of a rank has a bar at its foot: a V's way back is told from its way there.
    if (Math.floor(cellOf(action) / units / s.ranks) % 2) bars.push([left, wide]);
    const room = Math.floor((w - 2) / 6.6);
    if (room > 0) texts.push([left + wide / 2, action, room]);
  });
  for (const [left, wide] of bars) painter.box(left, top + ROW - 5, wide, 3, ons[kind]);
  for (const [middle, action, room] of texts) {
    const name = nameOf(s, action), number = kindOf(action) === O ? '' : String(unitOf(s, action));
    const text = name.length <= room ? name : number.length <= room ? number : '';
    if (text) painter.text(middle, top + 13, text, ons[kind], 11, 'middle');
  }
}

// What each rank holds over time, in micro-batches of a whole rank; the cap is a dashed line.
function drawHeld(painter, timed, {top, height, x, cap, ink}) {
  const s = timed.schedule, unit = unitOfRank(s);
  const most = Math.max(...timed.held) * unit, scale = Math.max(most, cap, 1);
  const y = value => top + height - value / scale * height;
  const text = Number.isInteger(most) ? String(most) : most.toFixed(1);
  painter.text(LEFT - 6, top + 10, text, ink, 13, 'end');
  painter.text(LEFT - 6, top + height, 'held', ink, 13, 'end');
  painter.line([[LEFT, y(0)], [x(timed.step), y(0)]], colour('rule'));
  s.orders.forEach((order, rank) => {
    const points = [[LEFT, y(0)]];
    let now = 0;
    const change = (ns, by) => {
      points.push([x(ns), y(now * unit)]);
      now += by;
      points.push([x(ns), y(now * unit)]);
    };
    order.forEach((action, at) => {
      if (kindOf(action) === F) change(timed.starts[rank][at], 1);
      if (kindOf(action) === B || kindOf(action) === W) change(timed.ends[rank][at], -1);
    });
    painter.line(points, colourOfRank(rank, s.ranks), 1.3);
  });
  if (cap) painter.line([[LEFT, y(cap)], [x(timed.step), y(cap)]], colour('red'), 1.5, true);
}

const colourOfRank = (rank, ranks) =>
    `hsl(${ranks > 1 ? 215 - 190 * rank / (ranks - 1) : 215} 70% 52%)`;

// The bytes that each rank of a plan holds; the cap is what its device has.
function drawMemory(painter, timed, {top, height, x, ink}) {
  const most = Math.max(...timed.memory.flat().map(sample => sample[1]), 1), cap = timed.memoryCap || 0;
  const y = bytes => top + height - bytes / Math.max(most, cap) * height;
  painter.text(LEFT - 6, top + 10, inGiB(most, 0), ink, 13, 'end');
  painter.text(LEFT - 6, top + height, 'GiB', ink, 13, 'end');
  painter.line([[LEFT, y(0)], [x(timed.step), y(0)]], colour('rule'));
  timed.memory.forEach((samples, rank) => {
    const points = [];
    samples.forEach(([ns, bytes], i) => {
      if (i) points.push([x(ns), points[points.length - 1][1]]);
      points.push([x(ns), y(bytes)]);
    });
    if (points.length) points.push([x(timed.step), points[points.length - 1][1]]);
    painter.line(points, colourOfRank(rank, timed.memory.length), 1.3);
  });
  if (cap) painter.line([[LEFT, y(cap)], [x(timed.step), y(cap)]], colour('red'), 1.5, true);
}

const inGiB = (bytes, digits = 2) => (bytes / 2 ** 30).toFixed(bytes < 2 ** 33 ? Math.max(digits, 1) : digits);

// The action pointed at, and what it waits for.
function drawMarked(painter, places, {panel, rank, at}, x, ink) {
  const {timed, top} = places[panel] || {};
  if (!timed || timed.schedule.orders[rank]?.[at] === undefined) return;
  const frame = (r, from, to) => {
    const y = top + r * ROW, [a, b] = [x(from), x(to)];
    painter.line([[a, y], [b, y], [b, y + ROW - 2], [a, y + ROW - 2], [a, y]], ink, 2);
  };
  frame(rank, timed.starts[rank][at], timed.ends[rank][at]);
  const other = awaitedBy(timed, rank, at);
  if (!other) return;
  painter.line([[x(other.made), top + other.rank * ROW + ROW / 2],
                [x(timed.starts[rank][at]), top + rank * ROW + ROW / 2]], ink, 1.5, true);
}
