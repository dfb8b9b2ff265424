// The page's controls and pictures. State is what the sliders say; the link's hash keeps it. Each
// change is timed and drawn in the next frame; what takes longer (all schedules, the chart) follows
// when the hand rests.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const $ = id => document.getElementById(id);
const LISTED = JSON.parse($('schedules').textContent).schedules;
const PLAN = JSON.parse($('planned').textContent);  // null: stages are alike
const NUMBERS = ['K', 'v', 'M', 'S', 'F', 'I', 'W', 'c', 'cap'], OWN = 'your own';
const REST_MS = 150, MOST_IN_LINK = 4000;
const state = {s: '1f1b', b: 'zb-h1', csv: ''};
let panels = [], layout = null, marked = null, zoom = 1, resting = 0, frame = 0;

const ms = ns => `${Number((ns / 1e6).toFixed(ns < 1e8 ? 3 : 1))} ms`;
const percent = share => `${(share * 100).toFixed(1)} %`;

function question(changes = {}) {
  const {K, v, M, S, F, I, W, c} = {...state, ...changes};
  return {K, v, M, S, F, I, W, latency: c};
}

// A schedule by its name, timed; throws the reason why there is none.
function timedOf(name, changes = {}) {
  const q = question(changes), sizes = PLAN ? {...q, K: PLAN.K, v: PLAN.v, S: PLAN.S} : q;
  const made = name === OWN ? readCsv(state.csv, OWN) : makeSchedule(name, sizes);
  if (typeof made === 'string') throw new Error(made);
  return PLAN ? timedOfPlan(made, q) : timeSchedule(made, q);
}

// With the plan's costs, which are of its stages on their ranks; as it is, with its memory.
function timedOfPlan(made, by) {
  if (String(made.place) !== String(PLAN.place))
    throw new Error(`${made.name} has other stages on the ranks than the plan`);
  const timed = timePlan(made, PLAN, by), as = [by.F, by.I, by.W, by.latency];
  timed.asPlanned = as.every(factor => factor === 1) && toCsv(made) === toCsv(readCsv(PLAN.csv, ''));
  return timed.asPlanned ? Object.assign(timed, {memory: PLAN.memory, memoryCap: PLAN.cap}) : timed;
}

// The sizes of a file are its own, and what stands beside it has them too.
function sizesOfOwn() {
  if (state.s !== OWN || !state.csv) return {};
  const s = readCsv(state.csv, OWN);
  return {K: s.ranks, M: s.microbatches};
}

function read() {
  for (const id of NUMBERS) state[id] = Number($(id).value);
  state.s = $('s').value;
  state.b = $('b').value;
}

function show() {
  for (const [id, {chosen}] of Object.entries({s: {chosen: state.s}, b: {chosen: state.b}})) {
    const names = LISTED.map(g => g.name);
    const all = id === 's' ? [...names, ...(state.csv ? [OWN] : [])] : ['', ...names];
    $(id).replaceChildren(...all.map(name => new Option(name || 'none', name, false, name === chosen)));
  }
  for (const id of NUMBERS) $(id).value = state[id];
}

function label() {
  const maker = MAKERS[state.s] || {}, own = state.s === OWN;
  const times = PLAN ? ' times' : ' ms', unit = {F: times, I: times, W: times, c: times};
  const says = {v: maker.v || state.v, cap: state.cap || 'none', S: maker.slices ? state.S : 1};
  const off = {K: own, M: own, v: own || Boolean(maker.v), S: own || !maker.slices};
  if (PLAN) {
    Object.assign(off, {K: true, v: true, S: true, cap: true});
    Object.assign(says, {K: PLAN.K, v: PLAN.v, S: PLAN.S, cap: PLAN.cap ? `${inGiB(PLAN.cap, 1)} GiB` : 'none'});
  }
  const sizes = own && panels.length ? panels[0].schedule : null;
  if (sizes)
    Object.assign(says, {K: sizes.ranks, M: sizes.microbatches, v: sizes.stages / sizes.ranks,
                         S: sizes.slices});
  for (const id of NUMBERS) {
    $(id).disabled = Boolean(off[id]);
    $(id).parentElement.classList.toggle('off', Boolean(off[id]));
    $(id).parentElement.querySelector('output').textContent = `${says[id] ?? state[id]}${unit[id] || ''}`;
  }
}

function toHash() {
  const words = new URLSearchParams();
  for (const id of ['s', 'b', ...NUMBERS]) words.set(id, state[id]);
  if (state.csv && state.csv.length <= MOST_IN_LINK) words.set('csv', state.csv);
  return `#${words}`;
}

// What a link says, where it is within the controls' ranges; the rest stays as it is.
function fromHash() {
  const words = new URLSearchParams(location.hash.slice(1)), names = LISTED.map(g => g.name);
  if (words.get('csv')) state.csv = words.get('csv');
  if (names.includes(words.get('s')) || (words.get('s') === OWN && state.csv)) state.s = words.get('s');
  if (words.has('b') && ['', ...names].includes(words.get('b'))) state.b = words.get('b');
  for (const id of NUMBERS) {
    const value = Number(words.get(id)), {min, max} = $(id);
    if (words.get(id) && value >= Number(min) && value <= Number(max)) state[id] = value;
  }
}

function compute() {
  panels = [];
  const refused = [];
  for (const [name, changes] of [[state.s, {}], [state.b, sizesOrNone()]]) {
    if (!name) continue;
    try {
      panels.push(timedOf(name, changes));
    } catch (error) {
      refused.push(name === OWN ? `${OWN}: ${error.message}` : error.message);
    }
  }
  return refused;
}

function sizesOrNone() {
  try {
    return sizesOfOwn();
  } catch {
    return {};  // the file itself is refused, and says why
  }
}

const mostHeld = timed => Math.max(...timed.held) * unitOfRank(timed.schedule);
const fitsCap = timed => !state.cap || mostHeld(timed) <= state.cap;
const cell = (text, over) => `<td${over ? ' class="over"' : ''}>${escaped(String(text))}</td>`;
const heads = names => `<tr>${names.map(name => `<th>${escaped(name)}</th>`).join('')}</tr>`;

function sentence(refused) {
  const [first, second] = panels, says = $('said');
  says.classList.toggle('refused', refused.length > 0);
  if (refused.length || !first) return void (says.textContent = refused.join('; '));
  const shared = PLAN && first.asPlanned && first.step !== PLAN.step
      ? ` weir simulate, which slows what shares a link or a device, says ${ms(PLAN.step)}.` : '';
  const against = second ? `; ${second.schedule.name} takes ${ms(second.step)}` : '';
  says.textContent = `${first.schedule.name}: a step of ${ms(first.step)}, ${percent(first.bubble)} of it idle${against}.${shared}`;
}

function facts() {
  const row = t => `<tr><td>${escaped(t.schedule.name)}</td>${cell(ms(t.step))}${cell(ms(t.bound))}` +
      `${cell(percent(t.step / t.bound - 1))}${cell(percent(t.bubble))}${cell(percent(t.bubbleSpan))}` +
      `${cell(Number(mostHeld(t).toFixed(2)), !fitsCap(t))}` +
      `${PLAN ? peakCell(t) : ''}` +
      `${state.cap ? cell(fitsCap(t) ? 'yes' : 'no', !fitsCap(t)) : ''}</tr>`;
  $('facts').innerHTML = heads(['', 'step', 'lower bound', 'over it', 'bubble', 'by span', 'most held',
                                ...(PLAN ? ['most memory'] : []), ...(state.cap ? ['within the cap'] : [])]) + panels.map(row).join('');
}

// The fullest rank's bytes, which are known of the plan as it is.
function peakCell(timed) {
  if (!timed.memory) return cell('');
  const most = Math.max(...timed.memory.flat().map(sample => sample[1]));
  return cell(`${inGiB(most)} GiB`, Boolean(PLAN.cap) && most > PLAN.cap);
}

function causes() {
  const names = [...CAUSES, 'optimizer'], used = names.filter(c => panels.some(t => t.idle.some(i => i[c])));
  if (!used.length) return void ($('causes').innerHTML = '<tr><td>No rank is ever idle.</td></tr>');
  const title = {optimizer: 'waiting for the end'};
  const rows = panels.flatMap(t => t.idle.map((idle, rank) =>
      `<tr><td>${escaped(t.schedule.name)}, rank ${rank}</td>${cell(percent(t.busy[rank] / t.step))}` +
      `${used.map(c => cell(percent(idle[c] / t.step))).join('')}</tr>`));
  $('causes').innerHTML = heads(['', 'busy', ...used.map(c => title[c] || c)]) + rows.join('');
}

function draw() {
  const room = $('live').clientWidth, width = Math.max(300, room) * zoom;
  const height = panels.reduce((sum, p) => sum + panelHeight(p), SCALE);
  layout = drawTimelines(canvasPainter($('timeline'), width, height), panels, {width, cap: state.cap, marked});
}

function command() {
  if (PLAN) return void ($('command').textContent = panels[0]?.asPlanned ? `weir simulate ${PLAN.file || 'the plan'}` : '(none: the plan is changed)');
  const q = question(), own = state.s === OWN, maker = MAKERS[state.s] || {};
  const sizes = own ? '' : ` -K ${q.K} -M ${q.M}${maker.v ? '' : ` -v ${q.v}`}` +
                           `${maker.slices ? ` --slices ${q.S}` : ''}`;
  $('command').textContent = `weir schedule ${own ? 'mine.csv' : state.s}${sizes} ` +
      `--uniform F=${q.F}ms,I=${q.I}ms,W=${q.W}ms,latency=${q.latency}ms`;
}

function render() {
  frame = 0;
  const refused = compute();
  label();
  sentence(refused);
  facts();
  causes();
  draw();
  command();
  if (PLAN && PLAN.measured) drawMeasured();
}

function soon() {
  if (!frame) frame = requestAnimationFrame(render);
  clearTimeout(resting);
  resting = setTimeout(() => {
    history.replaceState(null, '', toHash());
    listAll();
    overM();
  }, REST_MS);
}

function listAll() {
  const bubble = Object.fromEntries(LISTED.map(g => [g.name, g.bubble]));
  const names = [...LISTED.map(g => g.name), ...(state.csv ? [OWN] : [])], sizes = sizesOrNone();
  const rows = names.map(name => {
    try {
      return {name, timed: timedOf(name, name === OWN ? {} : sizes)};
    } catch (error) {
      return {name, why: error.message};
    }
  }).sort((a, b) => (a.timed ? a.timed.step : Infinity) - (b.timed ? b.timed.step : Infinity));
  $('all').innerHTML = heads(['', 'step', 'bubble', 'by span', 'most held', 'excess as published']) +
      rows.map(({name, timed, why}) => {
        const pick = `<td><button type="button" value="${name}">${name}</button></td>`;
        const numbers = timed ? cell(ms(timed.step)) + cell(percent(timed.bubble)) +
                                cell(percent(timed.bubbleSpan)) +
                                cell(Number(mostHeld(timed).toFixed(2)), !fitsCap(timed))
                              : `<td colspan="4">${escaped(why)}</td>`;
        return `<tr${name === state.s ? ' class="chosen"' : ''}>${pick}${numbers}${cell(bubble[name] || '')}</tr>`;
      }).join('');
}

// Bubbles of both schedules for M up to twice the slider's, and the first one's closed form.
function overM() {
  const most = Math.min(2 * Math.max(state.M, 8), 64), step = Math.ceil(most / 32);
  const line = name => {
    const points = [];
    for (let M = step; M <= most; M += step) {
      try {
        points.push([M, timedOf(name, {...sizesOrNone(), M}).bubble]);
      } catch {
        continue;  // no such schedule at this M: its line has a gap
      }
    }
    return points;
  };
  const lines = [], form = [], q = question();
  if (state.s !== OWN) lines.push({name: state.s, points: line(state.s), stroke: colour('F')});
  if (state.b) lines.push({name: state.b, points: line(state.b), stroke: colour('W')});
  let bound = false;
  for (let M = step; state.s !== OWN && M <= most; M += step) {
    const maker = MAKERS[state.s], v = maker.v || q.v;
    const closed = PLAN ? null : closedForm(state.s, {...q, v, M}, q);
    if (!closed) continue;
    bound = Boolean(closed.most);
    form.push([M, closed.excess / (M * (q.F + q.I + q.W) + closed.excess)]);
  }
  if (form.length)
    lines.push({name: 'closed form', points: form, stroke: colour('red'), dashed: true});
  $('overM').innerHTML = chartOf(lines, most);
  $('form').textContent = form.length
      ? `${state.s}, ${bound ? 'at most as published' : 'as published'}: an excess of ` +
        `${LISTED.find(g => g.name === state.s).bubble}${q.latency ? ', without latency' : ''}.`
      : PLAN ? '' : 'No closed form is published for these settings.';
}

function chartOf(lines, most) {
  const width = Math.min($('overM').clientWidth || 700, 760), height = 250, ink = colour('ink');
  const top = Math.max(0.05, ...lines.flatMap(l => l.points.map(p => p[1])));
  const x = m => 44 + m / most * (width - 60), y = b => 200 - b / top * 180;
  const painter = svgPainter(width, height);
  painter.box(0, 0, width, height, colour('page'));
  for (const tick of ticks(top * 100, 5)) {
    painter.line([[44, y(tick / 100)], [width - 16, y(tick / 100)]], colour('rule'));
    painter.text(40, y(tick / 100) + 4, `${Number(tick.toFixed(2))} %`, ink, 13, 'end');
  }
  for (const tick of ticks(most, 8).filter(Number.isInteger)) painter.text(x(tick), 217, String(tick), ink, 13, 'middle');
  let at = 44;
  for (const {name, points, stroke, dashed} of lines) {
    painter.line(points.map(([m, b]) => [x(m), y(b)]), stroke, 2, dashed);
    painter.line([[at, 236], [at + 18, 236]], stroke, 2, dashed);
    painter.text(at + 22, 240, name, ink);
    at += 34 + 7.2 * name.length;
  }
  painter.text(width - 16, 240, 'M', ink, 13, 'end');
  return painter.finished();
}

function tell() {
  const {panel, rank, at} = marked || {}, timed = panels[panel];
  if (!timed || timed.schedule.orders[rank]?.[at] === undefined)
    return void ($('tip').textContent = 'Point at an action, or go there by the arrow keys.');
  const s = timed.schedule, name = nameOf(s, s.orders[rank][at]), start = timed.starts[rank][at];
  const other = awaitedBy(timed, rank, at), before = at ? timed.ends[rank][at - 1] : 0;
  let waits = at ? `follows ${nameOf(s, s.orders[rank][at - 1])}` : 'begins its rank';
  if (other) {
    const from = nameOf(s, other.cell * 8 + other.kind).replace('I', s.orders.some(o => o.some(a => kindOf(a) === I)) ? 'I' : 'B');
    const way = other.crosses && other.there > other.made ? `, there at ${ms(other.there)}` : '';
    waits = `${other.there >= before ? 'waits for' : `${waits}; has waited for`} ${from} of rank ${other.rank} ` +
            `(made at ${ms(other.made)}${way})`;
  }
  $('tip').textContent = `${name} on rank ${rank}, ${ms(start)} to ${ms(timed.ends[rank][at])}: ${waits}`;
}

function mark(where) {
  marked = where;
  tell();
  draw();
}

function pointed(event) {
  const panel = layout.places.findIndex(({timed, top}) =>
      event.offsetY >= top && event.offsetY < top + timed.schedule.ranks * ROW);
  if (panel < 0) return null;
  const {timed, top} = layout.places[panel], rank = Math.floor((event.offsetY - top) / ROW);
  const ns = layout.nsAt(event.offsetX);
  const at = timed.starts[rank].findIndex((start, i) => ns >= start && ns < timed.ends[rank][i]);
  return at < 0 ? null : {panel, rank, at};
}

function goBy(key) {
  if (!panels.length) return;
  const {panel, rank, at} = marked || {panel: 0, rank: 0, at: -1}, timed = panels[panel] || panels[0];
  const orders = timed.schedule.orders, start = timed.starts[rank]?.[at] ?? 0;
  // On another rank the action nearest in time.
  const near = r => timed.starts[r].reduce((best, s, i) =>
      Math.abs(s - start) < Math.abs(timed.starts[r][best] - start) ? i : best, 0);
  const other = at >= 0 && awaitedBy(timed, rank, at);
  const to = {ArrowRight: () => ({panel, rank, at: Math.min(at + 1, orders[rank].length - 1)}),
              ArrowLeft: () => ({panel, rank, at: Math.max(at - 1, 0)}),
              ArrowUp: () => rank > 0 ? {panel, rank: rank - 1, at: near(rank - 1)}
                                      : panel > 0 ? {panel: panel - 1, rank: 0, at: 0} : marked,
              ArrowDown: () => rank + 1 < orders.length ? {panel, rank: rank + 1, at: near(rank + 1)}
                                                        : panels[panel + 1] ? {panel: panel + 1, rank: 0, at: 0} : marked,
              Enter: () => other ? {panel, rank: other.rank, at: orders[other.rank].findIndex(a =>
                  cellOf(a) === other.cell && (kindOf(a) === F) === (other.kind === F) && kindOf(a) !== W)} : marked}[key];
  if (to) mark(to());
  return Boolean(to);
}

function save(name, text, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function timesCsv() {
  const seconds = ns => (ns / 1e9).toFixed(9);
  return 'rank,label,action,start_s,end_s\n' + panels.map(t => t.schedule.orders.map((order, rank) =>
      order.map((a, at) => `${rank},${t.schedule.name},${nameOf(t.schedule, a)},` +
                           `${seconds(t.starts[rank][at])},${seconds(t.ends[rank][at])}\n`).join('')).join('')).join('');
}

function timelineSvg() {
  const width = $('live').clientWidth, height = panels.reduce((sum, p) => sum + panelHeight(p), SCALE);
  const painter = svgPainter(width, height);
  drawTimelines(painter, panels, {width, cap: state.cap, marked: null});
  return painter.finished();
}

function takeOwn(text) {
  try {
    const own = readCsv(text, OWN);
    PLAN ? timedOfPlan(own, question()) : timeSchedule(own, question());
    $('wrong').textContent = '';
    Object.assign(state, {csv: text, s: OWN});
  } catch (error) {
    $('wrong').textContent = error.message;
    $('own').open = true;
    return;
  }
  marked = null;
  show();
  soon();
}

$('controls').addEventListener('input', () => { read(); marked = null; tell(); soon(); });
$('controls').addEventListener('submit', event => event.preventDefault());
$('timeline').addEventListener('pointermove', event => mark(pointed(event)));
$('timeline').addEventListener('pointerdown', event => mark(pointed(event)));
$('timeline').addEventListener('keydown', event => { if (goBy(event.key)) event.preventDefault(); });
$('pairs').addEventListener('pointermove', tellPair);
$('pairs').addEventListener('pointerdown', tellPair);
$('larger').addEventListener('click', () => { zoom = Math.min(zoom * 1.5, 12); draw(); });
$('smaller').addEventListener('click', () => { zoom = Math.max(zoom / 1.5, 1); draw(); });
$('svg').addEventListener('click', () => save('timeline.svg', timelineSvg(), 'image/svg+xml'));
$('order').addEventListener('click', () => panels[0] && save('schedule.csv', toCsv(panels[0].base || panels[0].schedule), 'text/csv'));
$('times').addEventListener('click', () => save('timeline.csv', timesCsv(), 'text/csv'));
$('link').addEventListener('click', async () => {
  history.replaceState(null, '', toHash());
  const whole = state.csv.length > MOST_IN_LINK ? ' (without your file: it is too long for a link)' : '';
  try {
    await navigator.clipboard.writeText(location.href);
    $('tip').textContent = `The link is copied${whole}.`;
  } catch {
    $('tip').textContent = `The link is in the address bar${whole}.`;
  }
});
$('all').addEventListener('click', event => {
  if (event.target.tagName !== 'BUTTON') return;
  state.s = event.target.value;
  marked = null;
  show();
  soon();
});
$('file').addEventListener('change', async event => {
  if (event.target.files[0]) takeOwn(await event.target.files[0].text());
});
$('paste').addEventListener('input', event => event.target.value.trim() && takeOwn(event.target.value));
$('away').addEventListener('click', () => {
  Object.assign(state, {csv: '', s: state.s === OWN ? '1f1b' : state.s});
  $('paste').value = $('file').value = $('wrong').textContent = '';
  show();
  soon();
});
for (const kind of ['dragover', 'dragleave', 'drop']) {
  document.addEventListener(kind, async event => {
    event.preventDefault();
    document.body.classList.toggle('drop', kind === 'dragover');
    const file = kind === 'drop' && event.dataTransfer.files[0];
    if (file) takeOwn(await file.text());
  });
}
window.addEventListener('resize', soon);
window.addEventListener('hashchange', () => { fromHash(); show(); soon(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', soon);

// A plan's own order is a published one's, or stands as one's own.
function asThePlan() {
  for (const id of ['K', 'v', 'M', 'S']) {
    $(id).max = Math.max(Number($(id).max), PLAN[id] * (id === 'M' ? 4 : 1));
    state[id] = PLAN[id];
  }
  Object.assign(state, {c: 1, cap: 0, b: '', s: PLAN.schedule});
  const made = makeSchedule(PLAN.schedule, PLAN);
  if (typeof made === 'string' || toCsv(made) !== toCsv(readCsv(PLAN.csv, '')))
    Object.assign(state, {s: OWN, csv: PLAN.csv});
  $('uniform').hidden = true;
  $('ofplan').hidden = false;
  $('what').textContent = `${PLAN.plan}; ${PLAN.device}, ${PLAN.stack}; costs: ${PLAN.basis}`;
}

read();
Object.assign(state, {s: '1f1b', b: 'zb-h1'});
if (PLAN) asThePlan();
fromHash();
show();
render();
soon();
