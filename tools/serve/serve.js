// What a person does on the page, and what the server answers to it. State is the job that was read,
// the plan that is looked at, and what was found around it.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const $ = id => document.getElementById(id);
const TOKEN = new URLSearchParams(location.search).get('token');
let job = null, planned = null, found = null, searching = null, machine = {};
// What was compared last, {plan, figure}; and of what corrects the forecasts, the figure of each plan.
let compared = null;
const learnt = new Map();

const seconds = s => s >= 1 ? `${s.toFixed(3)} s` : `${(s * 1e3).toFixed(s < 0.01 ? 3 : 1)} ms`;
const days = s => s >= 172800 ? `${figure(s / 86400)} days` : `${figure(s / 3600)} hours`;
const percent = share => `${(share * 100).toFixed(1)} %`;
const signed = share => `${share > 0 ? '+' : ''}${(share * 100).toFixed(1)} %`;
const gib = bytes => `${(bytes / 2 ** 30).toFixed(bytes < 2 ** 34 ? 2 : 1)} GiB`;
const figure = number => Number(number.toPrecision(4)).toLocaleString('en');
const words = name => name.replaceAll('_', ' ');

function complain(text) {
  $('wrong').textContent = text;
  if (text) $('wrong').scrollIntoView({block: 'nearest'});
}

// One answer; throws what the server says is wrong.
async function ask(name, body) {
  $('busy').textContent = `${name} ...`;
  try {
    const response = await fetch(`/api/${name}`, {method: 'POST', body: JSON.stringify(body),
      headers: {'Content-Type': 'application/json', 'X-Weir-Token': TOKEN}});
    const text = await response.text();
    const told = response.headers.get('Content-Type').startsWith('text/html') ? text : JSON.parse(text);
    if (!response.ok) throw new Error(told.message);
    return told;
  } finally {
    $('busy').textContent = '';
  }
}

// A stream of server-sent events: `hear` is told each one's name and data.
async function listen(name, options, hear) {
  const response = await fetch(`/api/${name}`, {...options, headers: {'Content-Type': 'application/json',
                                                                      'X-Weir-Token': TOKEN}});
  if (!response.ok) throw new Error((await response.json()).message);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    const events = rest.split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const lines = event.split('\n'), of = key => (lines.find(l => l.startsWith(key)) || '').slice(key.length);
      if (of('event: ')) hear(of('event: '), JSON.parse(of('data: ')));
    }
  }
}

// Runs what a button is for; what goes wrong is said above.
function doing(id, work) {
  $(id).addEventListener('click', async event => {
    event.preventDefault();
    await tried(work, $(id));
  });
}
async function tried(work, button) {
  complain('');
  if (button) button.disabled = true;
  try {
    await work();
  } catch (error) {
    complain(error.message);
  }
  if (button) button.disabled = false;
}

function table(id, heads, rows, textual = 1) {
  const cell = (kind, content, i) => {
    const element = document.createElement(kind);
    if (i < textual) element.className = 'text';
    element.append(content instanceof Node ? content : String(content ?? ''));
    return element;
  };
  const line = (kind, cells) => {
    const row = document.createElement('tr');
    row.append(...cells.map((content, i) => cell(kind, content, i)));
    return row;
  };
  const head = document.createElement('thead'), body = document.createElement('tbody');
  head.append(line('th', heads));
  body.append(...rows.map(row => line('td', row)));
  $(id).replaceChildren(head, body);
  return [...body.children];
}

function list(id, lines) {
  $(id).replaceChildren(...lines.map(line => {
    const item = document.createElement('li');
    item.textContent = line;
    return item;
  }));
}

// The fields of the machine that are filled in, as a request has them.
function machineSaid() {
  const said = {};
  for (const id of ['cluster', 'stack', 'memory-limit']) if ($(id).value.trim()) said[id] = $(id).value.trim();
  if ($('gpus').value) said.gpus = Number($('gpus').value);
  return said;
}

async function pastedFiles() {
  const files = await Promise.all([...$('files').files].map(async f => ({name: f.name, text: await f.text()})));
  if ($('text').value.trim()) files.unshift({name: 'pasted', text: $('text').value});
  if (!files.length) throw new Error('paste a job, or choose a file');
  return files;
}

async function readJob() {
  machine = machineSaid();
  const body = {files: await pastedFiles()};
  for (const id of ['gpus', 'cluster']) if (machine[id]) body[id] = machine[id];
  for (const id of ['global-batch-size', 'seq-length']) if ($(id).value) body[id] = Number($(id).value);
  for (const id of ['forecast', 'measuring', 'correct', 'corrected']) $(id).hidden = true;
  // What a search of the job before would find has no place beside this one.
  forgetFound();
  compared = null;
  learnt.clear();
  job = await ask('job', body);
  showRead();
  if (job.plan) await forecastOf(job.plan, 'the job as it runs today');
  else startOfModel();
}

// What was found by other costs, or of another job.
function forgetFound() {
  for (const id of ['explained', 'searched', 'shown']) $(id).hidden = true;
  searching?.abort();
  found = null;
}

// What became of each argument, the ones that matter to the eye first.
const FATES = {unknown: 'not understood', refused: 'refused', no_effect: 'without effect', carried: 'read'};
function showRead() {
  $('was').hidden = false;
  const its = job.result || {};
  $('summary').textContent = job.plan ? `A plan: ${job.summary}` :
    `A model: ${figure(its.parameters)} parameters in ${its.layers.length} layers. Say the samples of a step and search.`;
  $('read-by').textContent = job.command;
  const fates = new Map();
  for (const argument of its.arguments || []) {
    const fate = FATES[argument.fate] || words(argument.fate);
    fates.set(fate, [...(fates.get(fate) || []), `${argument.name} ${argument.value}`.trim()]);
  }
  const rows = [...fates].map(([fate, names]) => [fate, names.length, names.join(', ')]);
  for (const remark of its.remarks || []) rows.unshift(['mind', '', `${remark.name}: ${remark.text}`]);
  if ((its.defaults || []).length)
    rows.push(['not said, taken as', its.defaults.length, its.defaults.map(d => `${d.name} ${d.text}`).join(', ')]);
  table('arguments', rows.length ? ['', '', ''] : [], rows, 3);
  list('notes', notesBeyondTable());
}

// What the table of arguments has not said already.
function notesBeyondTable() {
  const remarks = (job.result?.remarks || []).map(remark => remark.text);
  const inTable = note => / \d+ (carried|without effect)|: not said, taken as /.test(note) ||
    remarks.some(text => note.endsWith(text));
  return job.notes.filter(note => !inTable(note));
}

function startOfModel() {
  $('forecast').hidden = false;
  $('of').textContent = '';
  $('facts').replaceChildren();
  $('memory').replaceChildren();
  $('forecast-by').textContent = '';
  for (const id of ['why', 'timeline']) $(id).disabled = true;
}

// `planned.stack`: a plan's file names no software, and the search that found it had one.
const withMachine = body => ({...(planned?.stack ? {stack: planned.stack} : {}), ...machine, ...body});

async function forecastOf(plan, what, stack = null) {
  planned = {plan, what, stack};
  const tokens = Number($('train-tokens').value);
  const told = await ask('simulate', withMachine({plan, ...(tokens ? {'train-tokens': tokens} : {})}));
  for (const id of ['why', 'timeline']) $(id).disabled = false;
  showForecast(told, what);
  await differences(plan);
}

// What training takes of hours and money: of a billion tokens (samples without them: of a thousand
// steps), and of a whole training where its tokens are said. Nothing of durations, which are of no job.
function spent(f) {
  const cost = f?.training_cost;
  if (!cost) return [];
  const told = ({gpu_hours, price, currency}, times = 1) =>
    `${figure(gpu_hours * times)} device-hours${price === undefined ? '' : `, ${figure(price * times)} ${currency}`}`;
  const {training, billion_tokens: billion} = cost;
  const unit = billion ? ['a billion tokens', told(billion)] : ['a thousand steps', told(cost.step, 1000)];
  return [unit, ...(training ? [[`${figure(training.tokens)} tokens`, `${told(training)}, ${days(training.time_s)}`]] : [])];
}

function showForecast(told, what) {
  const f = told.result, top = Math.max(...f.ranks.map(r => r.peak_memory_bytes));
  $('forecast').hidden = $('measuring').hidden = false;
  $('back').hidden = planned.plan === job.plan || !job.plan;
  $('of').textContent = `${what}${told.end ? `: ${told.end.message}` : ''}`;
  const between = f.step_time_interval_s;
  const facts = [['step', seconds(f.step_time_s)],
    ['between', between ? `${seconds(between[0])} and ${seconds(between[1])}` : 'no interval'],
    ['bubble', percent(f.bubble_fraction)],
    ['memory of the fullest', f.memory_limit_bytes ? `${gib(top)} of ${gib(f.memory_limit_bytes)}` : gib(top)],
    ...(f.host ? [["with a node's host", `${gib(f.host.held_bytes)} of ${gib(f.host.memory_bytes)}`]] : []),
    ['fits', f.fits ?? 'no limit known'],
    ['tokens a second', f.tokens_per_s ? figure(f.tokens_per_s) : 'no tokens'],
    ['of the peak', f.mfu ? percent(f.mfu) : 'no peak known'], ['costs', f.basis], ...spent(f)];
  $('facts').replaceChildren(...facts.map(([name, value]) => {
    const pair = document.createElement('div'), dt = document.createElement('dt'), dd = document.createElement('dd');
    dt.textContent = name;
    dd.textContent = value;
    pair.append(dt, dd);
    return pair;
  }));
  const kinds = Object.keys(f.ranks[0].memory_bytes);
  $('memory').replaceChildren(stackedBars(f.ranks.map(r => ({name: `rank ${r.rank}`,
    parts: kinds.map(kind => r.memory_bytes[kind])})), kinds.map(words), f.memory_limit_bytes, gib));
  $('forecast-by').textContent = told.command;
  list('notes', [...new Set([...notesBeyondTable(), ...told.notes, ...f.warnings])]);
}

const TOLD = {useful_at_peak: 'useful work at the peak', kernels: 'kernels, beyond the peak', compute: 'computing',
  rematerialised: 're-materialisation', tensor: 'tensor parallel', context: 'context parallel',
  experts: 'expert parallel', replicas: 'replicas: gradients', messages: 'messages', fill: 'idle: fill',
  drain: 'idle: drain', imbalance: 'idle: imbalance', offload: 'copies to the host', host: 'host', slow_rank: 'a slow rank',
  contention: 'contention', update: 'update', end: 'idle: end of the step'};

async function explain(more = {}) {
  const told = await ask('explain', withMachine({plan: planned.plan, ...more}));
  $('explained').hidden = false;
  $('explained-of').textContent = `of ${planned.what}`;
  $('waterfall').replaceChildren(waterfallBars(told.result.waterfall.filter(part => part.time_ns).map(part => ({
    name: TOLD[part.name] || words(part.name), time: part.time_ns / 1e9, idle: TOLD[part.name]?.startsWith('idle')})),
    seconds));
  const rows = told.result.what_if.map((change, i) => {
    if (change.refused) return [`${change.choice}: ${change.to}`, change.refused, '', ''];
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = `${change.choice}: ${change.to}`;
    button.addEventListener('click', () => tried(async () => {
      await forecastOf(`${told.plans}/what-if-${i + 1}.json`, `changed: ${change.choice}, ${change.to}`);
      $('forecast').scrollIntoView();
    }, button));
    return [button, signed(change.gain), seconds(change.step_time_s), gib(change.peak_memory_bytes) + (change.fits ? `, fits: ${change.fits}` : '')];
  });
  table('changes', ['change', 'faster by', 'step', 'memory'], rows);
  $('explained-by').textContent = told.command;
  return told.result;
}

async function measure() {
  let measured = $('figure').value.trim(), trace = null;
  const [log] = $('log').files;
  if (log) {
    const text = await log.text();
    measured = (await ask('file', {job: job.job, name: log.name, text})).result.file;
    // As the server tells one from a log: it has an answer for what only looks like it.
    if (text.includes('"traceEvents"')) trace = measured;
  }
  if (!measured) throw new Error('say a step time, or choose a log or a trace');
  const {measured: m} = await explain({measured});
  compared = {plan: planned.plan, figure: measured};
  $('correct').hidden = false;
  $('difference').textContent = `Measured ${seconds(m.step_time_s)}, ${signed(m.difference_s / (m.step_time_s - m.difference_s))}
    of the forecast ${seconds(m.step_time_s - m.difference_s)}${m.within_interval === null ? '' :
    m.within_interval ? '; within its interval' : '; outside its interval'}. What one cause alone would have to be:`;
  table('causes', ['cause', 'times', 'plausible', 'how to tell'],
        m.causes.map(c => [TOLD[c.name] || words(c.name), c.factor === null ? 'none alone' : c.factor.toFixed(2), c.plausible ? 'yes' : 'no', c.measurement]));
  if (trace) await timeline({trace});
}

// From here on forecasts and searches are by costs that are corrected by what was measured.
const FACTORS = {compute: 'computing', messages: 'messages', step: 'what comes once a step', memory: 'memory'};
async function correct() {
  const figures = new Map(learnt).set(compared.plan, compared.figure);
  const {costs, 'memory-limit': limit, ...where} = withMachine({});
  const told = await ask('calibrate', {...where, measured: [...figures].map(([plan, figure]) => `${plan}=${figure}`)});
  learnt.set(compared.plan, compared.figure);
  machine.costs = told.costs;
  const {factors, runs} = told.result.anchor;
  table('factors', ['built-in costs of', 'times'],
        Object.entries(FACTORS).map(([name, said]) => [said, factors[name].toFixed(3)]));
  table('learnt', ['measured', 'step', 'left over'],
        runs.map(r => [`${r.plan}=${r.figure}`, seconds(r.step_time_s), signed(Math.expm1(r.residual))]));
  list('corrected-notes', told.notes);
  $('corrected-by').textContent = told.command;
  $('corrected').hidden = false;
  await forecastAnew();
}

async function uncorrect() {
  delete machine.costs;
  learnt.clear();
  $('corrected').hidden = true;
  await forecastAnew();
}

async function forecastAnew() {
  forgetFound();
  await forecastOf(planned.plan, planned.what, planned.stack);
}

// With a trace, the measured timeline beside the forecast's.
async function timeline(more = {}) {
  $('page').srcdoc = await ask('page', withMachine({plan: planned.plan, ...more}));
  $('shown').hidden = false;
  $('shown').scrollIntoView();
}

function searchRequest() {
  const body = {...machine};
  for (const id of ['global-batch-size', 'seq-length']) if ($(id).value) body[id] = Number($(id).value);
  // The plan in use says what it trains: the search keeps to that, and compares with it.
  if (job.plan) return {...body, baseline: job.plan, model: modelOf(job), explain: true};
  return {...body, model: job.model};
}
const modelOf = read => read.result?.model ?? read.model ?? null;

async function search() {
  $('searched').hidden = false;
  $('stop').disabled = false;
  $('how-far').textContent = '';
  $('plans').replaceChildren();
  list('search-notes', []);
  $('searched').scrollIntoView();
  searching = new AbortController();
  try {
    await listen('sweep', {method: 'POST', body: JSON.stringify(searchRequest()), signal: searching.signal}, (name, data) => {
      if (name === 'progress') showProgress(data);
      if (name === 'result') showPlans(data);
      if (name === 'error') throw new Error(data.message);
    });
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  } finally {
    $('stop').disabled = true;
  }
}

const AXES = {x: 'step time', y: 'peak memory'}, UNITS = {x: seconds, y: gib};
function showProgress(p) {
  $('far').value = p.of ? p.done / p.of : 0;
  $('how-far').textContent = `${p.done} of ${p.of} candidates, ${p.seconds.toFixed(1)} s` +
    (p.best_step_time_s ? `, best ${seconds(p.best_step_time_s)}` : '');
  $('front').replaceChildren(scatter(p.front.map(one => ({x: one.step_time_s, y: one.peak_memory_bytes, kind: 'front',
    title: `${one.plan}: ${seconds(one.step_time_s)}, ${gib(one.peak_memory_bytes)}`})), AXES, UNITS));
}

const peakOf = forecast => Math.max(...forecast.ranks.map(r => r.peak_memory_bytes));
const inShort = p => `K ${p.pp}, v ${p.vpp}, M ${p.microbatches}, b ${p.micro_batch_size}, tp ${p.tp}, dp ${p.dp}` +
  `${p.zero ? `, zero ${p.zero}` : ''}, ${p.schedule}${p.recompute === 'none' ? '' : `, recompute ${p.recompute}`}`;

function showPlans(told) {
  const its = told.result;
  found = {plans: its.plans, folder: told.plans};
  $('far').value = 1;
  $('how-far').textContent = `${its.candidates} candidates, ${its.seconds.toFixed(2)} s; ` +
    (its.gap === null ? 'others were not come to' : its.gap === 0 ? 'no other can be faster' :
      `another may be ${percent(its.gap)} faster`);
  const points = its.plans.map(row => ({x: row.forecast.step_time_s, y: peakOf(row.forecast), kind: row.pareto ? 'front' : '',
    title: `${inShort(row.plan)}: ${seconds(row.forecast.step_time_s)}, ${gib(peakOf(row.forecast))}`}));
  const today = its.baseline?.forecast;
  if (today) points.push({x: today.step_time_s, y: peakOf(today), kind: 'baseline', title: 'the job as it runs today'});
  const choose = i => tried(() => i < its.plans.length ? choosePlan(i) : forecastOf(job.plan, 'the job as it runs today'));
  $('front').replaceChildren(scatter(points, AXES, UNITS, choose));
  const rows = table('plans', ['plan', 'step', today ? 'against today' : '', 'bubble', 'memory', 'fits', 'front', ...spent(its.plans[0]?.forecast).slice(0, 1).map(([unit]) => unit)],
    its.plans.map(({plan, forecast: f, pareto}) => [inShort(plan), seconds(f.step_time_s),
      today ? signed(f.step_time_s / today.step_time_s - 1) : '', percent(f.bubble_fraction), gib(peakOf(f)),
      f.fits ?? '', pareto ? 'yes' : '', ...spent(f).slice(0, 1).map(([, cost]) => cost)]));
  rows.forEach((row, i) => row.addEventListener('click', () => choose(i)));
  const first = (its.first_changes || []).map((c, i) => `${i ? 'then' : 'first'}: ${c.what}: ` +
    `${c.ratio_to_baseline.toFixed(2)} times as fast, ${gib(c.peak_memory_bytes)}`);
  list('search-notes', [...first, ...told.notes]);
  $('searched-by').textContent = told.command;
}

async function choosePlan(i) {
  [...$('plans').querySelectorAll('tbody tr')].forEach((row, n) => row.classList.toggle('chosen', n === i));
  await forecastOf(`${found.folder}/plan-${i + 1}.json`, `place ${i + 1} of the search: ${inShort(found.plans[i].plan)}`,
                   found.plans[i].forecast.stack);
  await timeline();
}

// A table of its own behind the others of what differs.
function differenceTable(id, title, heads, rows) {
  const holder = document.createElement('div'), head = document.createElement('h3'), its = document.createElement('table');
  head.textContent = title;
  holder.className = 'wide';
  its.id = id;
  holder.append(its);
  $('differs').append(head, holder);
  table(id, heads, rows, 3);
}

// What the plan that is looked at does otherwise than the job's, key by key; and the arguments of
// the job that say so.
async function differences(plan) {
  $('differs').replaceChildren();
  if (!job.plan || plan === job.plan) return;
  const said = value => value === null ? 'not said' : JSON.stringify(value);
  const {result, arguments: flags, notes} = await ask('changes', {from: job.plan, to: plan});
  differenceTable('otherwise', 'What it does otherwise than the job today', ['', 'today', 'this plan'],
    result.map(({key, before, after}) => [words(key), said(before), said(after)]));
  const flag = value => value === null ? 'not there' : value || 'set';
  if (flags?.length) {
    differenceTable('flags', 'Arguments of the job to change', ['', 'today', 'for this plan'],
      flags.map(({name, before, after}) => [`--${name}`, flag(before), flag(after)]));
  }
  for (const note of notes) {
    const line = document.createElement('p');
    line.textContent = note;
    $('differs').append(line);
  }
}

function showRuns(rows) {
  $('no-runs').hidden = rows.length > 0;
  if (!rows.length) return $('runs').replaceChildren();
  table('runs', ['folder', 'plan', 'state', 'step', 'loss', '', 'step time', 'tokens a second', 'forecast', 'error'],
    rows.map(r => [r.folder, r.plan ?? '', r.why ?? r.state, r.of ? `${r.steps} of ${r.of}` : '',
      r.loss === null ? '' : r.loss.toFixed(4), sparkline(r.losses), r.step_time_s ? seconds(r.step_time_s) : '',
      r.tokens_per_s ? figure(r.tokens_per_s) : '',
      r.forecast_step_time_s ? `${seconds(r.forecast_step_time_s)} (${r.basis})` : '',
      r.error === null ? '' : signed(r.error)]), 3);
}

// As long as the page is open; a server that was started again has another token.
async function watchRuns() {
  try {
    await listen('runs', {}, (name, data) => name === 'runs' && showRuns(data));
  } catch { /* told below, by what has ended */ }
  $('no-runs').hidden = false;
  $('no-runs').textContent = 'The server has ended: start weir serve again and open its link.';
}

function drops() {
  const over = (event, on) => {
    event.preventDefault();
    document.body.classList.toggle('drop', on);
  };
  document.addEventListener('dragover', event => over(event, true));
  document.addEventListener('dragleave', event => over(event, false));
  document.addEventListener('drop', event => {
    over(event, false);
    if (!event.dataTransfer.files.length) return;
    const log = $('measuring').contains(event.target);
    $(log ? 'log' : 'files').files = event.dataTransfer.files;
    tried(log ? measure : readJob, $(log ? 'measure' : 'read'));
  });
}

doing('read', readJob);
doing('why', () => explain());
doing('timeline', () => timeline());
doing('search', search);
doing('measure', measure);
doing('correct', correct);
doing('uncorrect', uncorrect);
doing('stop', () => ask('stop', {}));
doing('back', () => forecastOf(job.plan, 'the job as it runs today'));
$('log').addEventListener('change', () => tried(measure, $('measure')));
$('files').addEventListener('change', () => tried(readJob, $('read')));
drops();
watchRuns();
