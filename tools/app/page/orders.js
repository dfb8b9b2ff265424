// The published schedules in the browser: what plan/schedule/generators makes, action by action
// (tests/page holds the two to each other). A schedule is {name, ranks, stages, microbatches, slices,
// replicas, place, orders}; an action is one number, cell * 8 + kind, where a cell is a stage's
// micro-batch: stage * units + unit. A maker returns a schedule, or the reason why there is none.
// SPDX-License-Identifier: Apache-2.0
'use strict';

// R and O, a rebuilding and an update, are of plans alone (plan.js).
const F = 0, B = 1, I = 2, W = 3, R = 4, O = 5, KINDS = ['F', 'B', 'I', 'W', 'R', 'OPTIMIZER'];
const MOST_CELLS = 1 << 22;

const unitsOf = s => s.microbatches * s.slices;
const kindOf = action => action & 7;
const cellOf = action => action >> 3;
const stageOf = (s, action) => Math.floor(cellOf(action) / unitsOf(s));
const unitOf = (s, action) => cellOf(action) % unitsOf(s);
const nameOf = (s, action) =>
    `${stageOf(s, action)}${KINDS[kindOf(action)]}${kindOf(action) === O ? '' : unitOf(s, action)}`;
const isFirst = (s, stage) => stage % s.stages === 0;
const isLast = (s, stage) => stage % s.stages === s.stages - 1;

// Chunk c of a rank: looped, all run down; zigzag, every other one runs up.
function emptySchedule(name, {K, v, M, S}, kind = 'looped') {
  const replicas = kind === 'bidirectional' ? 2 : 1, place = [];
  for (let stage = 0; stage < K * v * replicas; ++stage) {
    const up = kind !== 'looped' && Math.floor(stage / K) % 2 === 1;
    place.push(up ? K - 1 - stage % K : stage % K);
  }
  const s = {name, ranks: K, stages: K * v, microbatches: M, slices: S, replicas, place,
             orders: Array.from({length: K}, () => [])};
  s.add = (rank, stage, kind, unit) => s.orders[rank].push((stage * M * S + unit) * 8 + kind);
  return s;
}

// `warmup` forwards, then a forward and a backward in turn, then the backwards that are left.
function warmUpAndAlternate(count, warmup, forward, backward) {
  const first = Math.min(warmup, count);
  for (let i = 0; i < first; ++i) forward(i);
  for (let i = 0; i < count; ++i) {
    if (first + i < count) forward(first + i);
    backward(i);
  }
}

function alternating(name, q, perRank) {
  const s = emptySchedule(name, q);
  for (let k = 0; k < q.K; ++k) {
    warmUpAndAlternate(q.M, perRank * (q.K - 1 - k), i => s.add(k, k, F, i),
                       i => s.add(k, k, B, i));
  }
  return s;
}

// Backwards split: from the `delay`-th on, a W follows each I; the others come at the end.
function splitInTurn(count, warmup, delay, forward, input, weights) {
  warmUpAndAlternate(count, warmup, forward, i => {
    input(i);
    if (i >= delay) weights(i - delay);
  });
  for (let i = Math.max(0, count - delay); i < count; ++i) weights(i);
}

function zeroBubbleH(name, q, times) {
  const s = emptySchedule(name, q);
  for (let k = 0; k < q.K; ++k) {
    splitInTurn(q.M, times * (q.K - 1 - k), times * k, i => s.add(k, k, F, i),
                i => s.add(k, k, I, i), i => s.add(k, k, W, i));
  }
  return s;
}

function interleaved(name, q, split) {
  const {K, v, M} = q, rounds = Math.max(1, Math.floor(M / K));
  if (M % rounds !== 0)
    return `${name} needs M divisible by its ${rounds} rounds of about K micro-batches; M = ${M}, ` +
           `K = ${K}`;
  const s = emptySchedule(name, q), group = M / rounds;
  for (let k = 0; k < K; ++k) {
    const add = kind => i => {
      const inRound = i % (group * v), chunk = Math.floor(inRound / group);
      s.add(k, (kind === F ? chunk : v - 1 - chunk) * K + k, kind,
            Math.floor(i / (group * v)) * group + inRound % group);
    };
    if (split) {
      const warmup = K - k - 1 + (v - 1) * group;
      splitInTurn(M * v, warmup, k, add(F), add(I), add(W));
    } else {
      warmUpAndAlternate(M * v, 2 * (K - k - 1) + (v - 1) * group, add(F), add(B));
    }
  }
  return s;
}

function loopedBfs(q) {
  const s = emptySchedule('looped-bfs', q);
  for (let k = 0; k < q.K; ++k) {
    for (let pass = 0; pass < 2 * q.v; ++pass) {
      const chunk = pass < q.v ? pass : 2 * q.v - 1 - pass;
      for (let i = 0; i < q.M; ++i) s.add(k, chunk * q.K + k, pass < q.v ? F : B, i);
    }
  }
  return s;
}

function seq1f1b(q) {
  const s = emptySchedule('seq1f1b', q);
  for (let k = 0; k < q.K; ++k) {
    // Of a sequence the last slice goes backward first.
    const backward = i => i - i % q.S + q.S - 1 - i % q.S;
    warmUpAndAlternate(q.M * q.S, q.K - k - 2 + q.S, i => s.add(k, k, F, i),
                       i => s.add(k, k, B, backward(i)));
  }
  return s;
}

// F0, F1, I1 and I0 of a micro-batch at fixed slots, the next one's six later; W fills free slots.
function buildingBlock(name, q, block) {
  const s = emptySchedule(name, q, 'zigzag'), PERIOD = 6;
  for (let d = 0; d < q.K; ++d) {
    const down = d, up = 2 * q.K - 1 - d, [f0, f1, i1, i0] = block(q.K, d), slots = [];
    for (let m = 0; m < q.M; ++m) {
      const at = m * PERIOD;
      slots.push([at + f0, down, F, m], [at + f1, up, F, m], [at + i1, up, I, m],
                 [at + i0, down, I, m]);
    }
    slots.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3]);
    const waiting = [];
    let now = 0, oldest = 0;
    const takeWaiting = () => s.add(d, waiting[oldest][0], W, waiting[oldest++][1]);
    for (const [slot, stage, kind, m] of slots) {
      for (; now < slot && oldest < waiting.length; ++now) takeWaiting();
      s.add(d, stage, kind, m);
      now = slot + 1;
      if (kind === I) waiting.push([stage, m]);
    }
    while (oldest < waiting.length) takeWaiting();
  }
  return s;
}

// DualPipe's eight steps (docs/theory.md 2.6); phases are [stage, first micro-batch].
function dualFlow(s, rank, phases, r, R, m) {
  const forwards = [0, 0], backwards = [0, 0], later = [];
  let oldest = 0;
  const add = (p, kind, i) => s.add(rank, phases[p][0], kind, phases[p][1] + i);
  const f = p => add(p, F, forwards[p]++), b = p => add(p, B, backwards[p]++);
  const z = p => {
    later.push([p, backwards[p]]);
    add(p, I, backwards[p]++);
  };
  const w = () => {
    const [p, i] = later[oldest++];
    add(p, W, i);
  };
  const times = (count, step) => {
    for (let i = 0; i < count; ++i) step(i);
  };
  times(2 * (R - r - 1), () => f(0));
  times(r + 1, () => { f(0); f(1); });
  times(R - r - 1, () => { z(1); w(); f(1); });
  times(m - 2 * R + r + 1, () => { f(0); b(1); f(1); b(0); });
  times(R - r - 1, () => { b(1); f(1); b(0); });
  let split = false;
  times(r + 1, i => {
    const middle = i === Math.floor((r + 1) / 2);
    if (middle && r % 2 === 1) split = true;
    split ? z(1) : b(1);
    if (middle && r % 2 === 0) split = true;
    split ? z(0) : b(0);
  });
  times(R - r - 1, () => { w(); z(0); });
  while (oldest < later.length) w();
}

function dualpipe(q) {
  const {K, M} = q;
  if (K % 2 || M % 2) return `dualpipe needs even K and M; K = ${K}, M = ${M}`;
  if (M < 2 * K) return `dualpipe needs M of at least 2K = ${2 * K}; M = ${M}`;
  const s = emptySchedule('dualpipe', q, 'bidirectional');
  for (let k = 0; k < K; ++k) {
    const upper = k < K / 2, down = [k, 0], up = [K + K - 1 - k, M / 2];
    dualFlow(s, k, upper ? [down, up] : [up, down], upper ? k : K - 1 - k, K / 2, M / 2);
  }
  return s;
}

function dualpipev(q) {
  const {K, M} = q;
  if (M < 2 * K) return `dualpipev needs M of at least 2K = ${2 * K}; M = ${M}`;
  const s = emptySchedule('dualpipev', q, 'zigzag');
  for (let r = 0; r < K; ++r) dualFlow(s, r, [[r, 0], [2 * K - 1 - r, 0]], r, K, M);
  return s;
}

function zbV(q) {
  const {K, M} = q;
  if (M < 2 * K - 1)
    return listSchedule(emptySchedule('zb-v', q, 'zigzag'), {split: true, most: 2 * K});
  const s = emptySchedule('zb-v', q, 'zigzag');
  for (let k = 0; k < K; ++k) {
    const done = [[0, 0, 0, 0], [0, 0, 0, 0]];
    const add = (chunk, kind) => s.add(k, chunk ? 2 * K - 1 - k : k, kind, done[chunk][kind]++);
    const backAndForth = (chunk, forward) => {
      if (forward) add(chunk, F);
      add(chunk, I);
      add(chunk, W);
    };
    for (let i = 0; i < 2 * (K - k) - 1; ++i) add(0, F);
    for (let i = 0; i < k; ++i) { add(1, F); add(0, F); }
    for (let i = 0; i < K - k; ++i) backAndForth(1, true);
    while (done[1][F] < M) {
      backAndForth(0, done[0][F] < M);
      backAndForth(1, true);
    }
    for (let i = 0; i < k; ++i) { add(0, I); add(1, I); }
    for (let i = 0; i < K - k; ++i) { add(0, I); add(0, W); }
    for (const chunk of [1, 0]) while (done[chunk][W] < M) add(chunk, W);
  }
  return s;
}

// Again and again the action that can start earliest, at F = I = W = 1 (docs/theory.md 2.4): of equal
// starts backwards first and W last, then the deeper stage, then the lower rank.
function listSchedule(s, {split, most}) {
  const count = s.microbatches / s.replicas, stages = s.place.length, units = unitsOf(s);
  const free = s.orders.map(() => 0), held = s.orders.map(() => 0);
  const weights = s.orders.map(() => []), oldest = s.orders.map(() => 0);
  const stagesOf = s.orders.map(() => []), best = [];
  const nextF = new Int32Array(stages), nextB = new Int32Array(stages);
  const endF = new Float64Array(stages * units), endI = new Float64Array(stages * units);
  const first = stage => Math.floor(stage / s.stages) * count;
  s.place.forEach((rank, stage) => stagesOf[rank].push(stage));
  const before = (a, b) =>
      !b || a.start < b.start || (a.start === b.start &&
                                  (a.kind < b.kind || (a.kind === b.kind && a.depth < b.depth)));
  const consider = rank => {
    let found = null;
    const offer = (start, kind, stage, depth) => {
      const one = {start: Math.max(start, free[rank]), kind, stage, depth};
      if (before(one, found)) found = one;
    };
    for (const stage of stagesOf[rank]) {
      const last = isLast(s, stage), depth = s.stages - stage % s.stages;
      const b = nextB[stage], f = nextF[stage], cell = stage * units + first(stage);
      if (b < f && (last || b < nextB[stage + 1]))
        offer(Math.max(endF[cell + b], last ? 0 : endI[cell + units + b]), 0, stage, depth);
      if (held[rank] < most && f < count && (isFirst(s, stage) || f < nextF[stage - 1]))
        offer(isFirst(s, stage) ? 0 : endF[cell - units + f], 1, stage, depth);
    }
    if (oldest[rank] < weights[rank].length) offer(0, 2, weights[rank][oldest[rank]][0], 0);
    best[rank] = found;
  };
  const take = (rank, {start, kind, stage}) => {
    const cell = stage * units + first(stage);
    if (kind === 2) {
      s.add(rank, stage, W, weights[rank][oldest[rank]++][1]);
      --held[rank];
      free[rank] = start + 1;
    } else if (kind === 1) {
      s.add(rank, stage, F, first(stage) + nextF[stage]);
      ++held[rank];
      free[rank] = endF[cell + nextF[stage]++] = start + 1;
    } else {
      const m = nextB[stage]++;
      s.add(rank, stage, split ? I : B, first(stage) + m);
      free[rank] = endI[cell + m] = start + (split ? 1 : 2);
      if (split) weights[rank].push([stage, first(stage) + m]);
      else --held[rank];
    }
  };
  for (let rank = 0; rank < s.ranks; ++rank) consider(rank);
  for (let left = stages * count * (split ? 3 : 2); left > 0; --left) {
    let rank = -1;
    for (let other = 0; other < s.ranks; ++other)
      if (best[other] && (rank < 0 || before(best[other], best[rank]))) rank = other;
    if (rank < 0) return `nothing may run: ${most} micro-batches in flight a rank are too few`;
    const taken = best[rank];
    take(rank, taken);
    consider(rank);
    // What waits for its output is on the rank of a neighbouring stage.
    const user = taken.kind === 1 ? taken.stage + 1 : taken.stage - 1;
    if (taken.kind < 2 && user >= 0 && user < stages && s.place[user] !== rank)
      consider(s.place[user]);
  }
  return s;
}

function chimera(q) {
  const {K, M} = q;
  if (K % 2 || M % 2) return `chimera needs even K and M; K = ${K}, M = ${M}`;
  return listSchedule(emptySchedule('chimera', q, 'bidirectional'), {split: false, most: K});
}

function hanayo(q) {
  if (q.v % 2) return `hanayo needs an even number of stages a rank (two a wave); v = ${q.v}`;
  return listSchedule(emptySchedule('hanayo', q, 'zigzag'),
                      {split: false, most: Math.floor(q.v * q.K * 3 / 2)});
}

// Each with the v that it takes, where it takes one only.
const MAKERS = {
  'gpipe': {v: 1, make: loopedBfsOfOne}, '1f1b': {v: 1, make: q => alternating('1f1b', q, 1)},
  '1f1b-eager': {v: 1, make: q => alternating('1f1b-eager', q, 2)},
  'interleaved-1f1b': {make: q => interleaved('interleaved-1f1b', q, false)},
  'interleaved-zb': {make: q => interleaved('interleaved-zb', q, true)},
  'looped-bfs': {make: loopedBfs}, 'zb-h1': {v: 1, make: q => zeroBubbleH('zb-h1', q, 1)},
  'zb-h2': {v: 1, make: q => zeroBubbleH('zb-h2', q, 2)}, 'zb-v': {v: 2, make: zbV},
  'v-half': {v: 2, make: q => buildingBlock('v-half', q, (k, d) => {
    const shift = k % 2 ? 0 : 3;
    return [2 * d, 3 * k - d - 2, 3 * k + shift + 2 * d - 1, 6 * k + shift - d - 2];
  })},
  'v-min': {v: 2, make: q => buildingBlock('v-min', q, (k, d) => {
    const shift = k % 3 ? 0 : 2;
    return [d, 2 * k - d - 1, 2 * k + shift + d, 4 * k + shift - d - 1];
  })},
  'dualpipev': {v: 2, make: dualpipev}, 'dualpipe': {v: 1, make: dualpipe},
  'seq1f1b': {v: 1, slices: true, make: seq1f1b}, 'chimera': {v: 1, make: chimera},
  'hanayo': {make: hanayo},
};

// GPipe is the breadth-first loop with one chunk.
function loopedBfsOfOne(q) {
  return Object.assign(loopedBfs(q), {name: 'gpipe'});
}

// `q`: {K, v, M, S}. A schedule that takes one v only, or no slices, has those.
function makeSchedule(name, q) {
  const maker = MAKERS[name];
  if (!maker) return `unknown schedule "${name}"`;
  const asked = {...q, v: maker.v || q.v, S: maker.slices ? q.S : 1};
  if (asked.K * asked.v * asked.M * asked.S > MOST_CELLS)
    return `K v M is more than ${MOST_CELLS} micro-batches on their stages`;
  return maker.make(asked);
}

function toCsv(s) {
  const rows = s.orders.map(order => order.map(a => nameOf(s, a)).join(',') || ',');
  return (s.slices > 1 ? `# segments=${s.slices}\n` : '') + rows.join('\n') + '\n';
}
