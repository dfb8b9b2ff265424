// A schedule in time: the longest path over the ranks' orders and the messages, its idle time by
// cause and its lower bound, to the nanosecond what `weir schedule --json` says (sim/engine,
// traces/metrics, sim/bounds). Times are whole nanoseconds.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const CAUSES = ['fill', 'drain', 'imbalance', 'communication', 'host'];

// `t`: {F, I, W, latency} in ms, of a rank and a micro-batch. The order of the products is the
// command's, so that both round alike.
function durationsOf(s, t) {
  const share = s.ranks / s.stages / s.slices, ns = ms => Math.round(ms * 1e-3 * share * 1e9);
  const f = ns(t.F), i = ns(t.I), w = ns(t.W);
  return {kinds: [f, i + w, i, w], latency: Math.round(t.latency * 1e-3 * 1e9)};
}

// The stage whose output or gradient an action waits for; -1: none.
function awaitedStage(s, stage, kind) {
  if (kind === F) return isFirst(s, stage) ? -1 : stage - 1;
  return kind === W || isLast(s, stage) ? -1 : stage + 1;
}

function timeSchedule(s, t) {
  const {kinds, latency} = durationsOf(s, t), units = unitsOf(s);
  // By cell, ends of F, and of B or I (-1: not yet), and since when what they sent is on its way.
  const endF = new Float64Array(s.place.length * units).fill(-1), endB = endF.slice();
  const wayF = endF.slice(), wayB = endF.slice();
  const arrived = new Float64Array(s.ranks * s.ranks);  // the last message, by its two ranks
  const starts = s.orders.map(order => new Float64Array(order.length)), ends = starts.map(a => a.slice());
  const next = s.orders.map(() => 0), awake = s.orders.map((_, rank) => rank);
  while (awake.length) {
    const rank = awake.pop(), order = s.orders[rank];
    for (; next[rank] < order.length; ++next[rank]) {
      const at = next[rank], action = order[at], kind = kindOf(action), cell = cellOf(action);
      const stage = Math.floor(cell / units), other = awaitedStage(s, stage, kind);
      let start = at ? ends[rank][at - 1] : 0;
      if (other >= 0) {
        const sent = (kind === F ? endF : endB)[cell + (other - stage) * units];
        if (sent < 0) break;
        start = Math.max(start, sent + (s.place[other] === rank ? 0 : latency));
      }
      starts[rank][at] = start;
      const end = ends[rank][at] = start + kinds[kind];
      if (kind === W) continue;
      (kind === F ? endF : endB)[cell] = end;
      const user = kind === F ? (isLast(s, stage) ? -1 : stage + 1) : isFirst(s, stage) ? -1 : stage - 1;
      if (user < 0 || s.place[user] === rank) continue;
      awake.push(s.place[user]);
      // A message counts as received from when the one before it has come.
      const edge = rank * s.ranks + s.place[user];
      (kind === F ? wayF : wayB)[cell] = Math.max(end, arrived[edge]);
      arrived[edge] = end + latency;
    }
  }
  const stuck = s.orders.findIndex((order, rank) => next[rank] < order.length);
  if (stuck >= 0)
    throw new Error(`deadlock: ${nameOf(s, s.orders[stuck][next[stuck]])} of rank ${stuck} waits for what ` +
                    'is never reached');
  const timed = {schedule: s, starts, ends, endF, endB, wayF, wayB, kinds, latency};
  return Object.assign(timed, metricsOf(timed), {bound: lowerBound(timed), held: inFlight(s)});
}

// When what the action at a place awaits was sent and was there; null: nothing is awaited.
function awaitedBy(timed, rank, at) {
  if (timed.program) return awaitedInPlan(timed, rank, at);
  const {schedule: s, endF, endB, wayF, wayB, latency} = timed;
  const action = s.orders[rank][at], kind = kindOf(action), stage = stageOf(s, action);
  const other = awaitedStage(s, stage, kind);
  if (other < 0) return null;
  const cell = other * unitsOf(s) + unitOf(s, action), crosses = s.place[other] !== rank;
  const made = (kind === F ? endF : endB)[cell];
  return {stage: other, rank: s.place[other], cell, kind, crosses, made,
          sent: crosses ? (kind === F ? wayF : wayB)[cell] : made,
          there: made + (crosses ? latency : 0)};
}

// A gap from its end: the message's way, and before it a wait, cut where the rank's first backward
// begins and its last forward ends (docs/design.md 9); what follows the last action is "optimizer".
function idleOf(timed, rank, step) {
  const {schedule: s, starts, ends} = timed, order = s.orders[rank];
  const idle = {fill: 0, drain: 0, imbalance: 0, communication: 0, optimizer: 0};
  let fillEnd = step, drainStart = 0;
  for (let at = order.length - 1; at >= 0; --at) {
    const kind = kindOf(order[at]);
    if (kind === B || kind === I) fillEnd = starts[rank][at];
    if (kind === F && !drainStart) drainStart = ends[rank][at];
  }
  let cursor = 0;
  order.forEach((_, at) => {
    const to = starts[rank][at];
    if (to > cursor) {
      const awaited = awaitedBy(timed, rank, at);
      const sent = awaited && awaited.crosses ? Math.min(Math.max(awaited.sent, cursor), to) : to;
      idle.communication += to - sent;
      const take = (cause, until) => {
        const amount = Math.max(Math.min(sent, until) - cursor, 0);
        cursor += amount;
        idle[cause] += amount;
      };
      take('fill', fillEnd);
      take('imbalance', drainStart);
      take('drain', sent);
    }
    cursor = ends[rank][at];
  });
  idle.optimizer = step - cursor;
  return idle;
}

function metricsOf(timed) {
  const {schedule: s, starts, ends} = timed;
  let step = 0, span = 0;
  s.orders.forEach((order, rank) => {
    if (!order.length) return;
    const end = ends[rank][order.length - 1];
    step = Math.max(step, end);
    span = Math.max(span, end - starts[rank][0]);
  });
  const busy = s.orders.map(order => order.reduce((sum, a) => sum + timed.kinds[kindOf(a)], 0));
  const work = busy.reduce((a, b) => a + b, 0);
  const seconds = ns => ns / 1e9;
  return {step, span, busy, idle: s.orders.map((_, rank) => idleOf(timed, rank, step)),
          bubble: step ? 1 - seconds(work) / s.ranks / seconds(step) : 0,
          bubbleSpan: span ? 1 - seconds(work) / s.ranks / seconds(span) : 0};
}

// Heads and tails over data and messages alone (docs/theory.md 3.2). A W waits for nothing there.
function lowerBound({schedule: s, kinds, latency}) {
  const units = unitsOf(s), duration = new Float64Array(s.place.length * units).fill(-1);
  for (const order of s.orders)
    for (const a of order)
      if (kindOf(a) === B || kindOf(a) === I) duration[cellOf(a)] = kinds[kindOf(a)];
  const ranks = s.orders.map(order => ({head: Infinity, tail: Infinity, all: 0, path: 0,
                                        empty: !order.length}));
  let best = 0;
  for (let unit = 0; unit < units; ++unit) {
    for (let first = 0; first < s.place.length; first += s.stages) {
      if (duration[first * units + unit] < 0) continue;  // another replica's
      boundOfUnit(s, first, stage => duration[stage * units + unit], kinds[F], latency, ranks,
                  way => { best = Math.max(best, way); });
    }
  }
  s.orders.forEach((order, rank) => order.forEach(a => {
    ranks[rank].all += kinds[kindOf(a)];
    if (kindOf(a) !== W) return void (ranks[rank].path += kinds[kindOf(a)]);
    ranks[rank].head = 0;
    best = Math.max(best, kinds[W]);
  }));
  for (const {head, tail, all, path, empty} of ranks)
    if (!empty) best = Math.max(best, head + Math.max(all, path + tail));
  return best;
}

// One micro-batch through its stages down and back: heads and tails of its ranks, its longest way.
function boundOfUnit(s, first, backward, f, latency, ranks, way) {
  const hop = (a, b) => s.place[a] === s.place[b] ? 0 : latency;
  const last = first + s.stages - 1, headF = [], headB = [], tailB = [], tailF = [];
  for (let at = first; at <= last; ++at)
    headF[at] = at === first ? 0 : headF[at - 1] + f + hop(at - 1, at);
  for (let at = last; at >= first; --at)
    headB[at] = Math.max(headF[at] + f, at === last ? 0 : headB[at + 1] + backward(at + 1) + hop(at, at + 1));
  for (let at = first; at <= last; ++at)
    tailB[at] = at === first ? 0 : tailB[at - 1] + backward(at - 1) + hop(at - 1, at);
  for (let at = last; at >= first; --at)
    tailF[at] = Math.max(tailB[at] + backward(at), at === last ? 0 : tailF[at + 1] + f + hop(at, at + 1));
  for (let at = first; at <= last; ++at) {
    const rank = ranks[s.place[at]];
    rank.head = Math.min(rank.head, headF[at], headB[at]);
    rank.tail = Math.min(rank.tail, tailF[at], tailB[at]);
    way(headF[at] + f + tailF[at]);
    way(headB[at] + backward(at) + tailB[at]);
  }
}

// By rank the most stage-micro-batches held at once, from the start of F to the end of W or B.
function inFlight(s) {
  return s.orders.map(order => {
    let now = 0, most = 0;
    for (const a of order) {
      if (kindOf(a) === F) most = Math.max(most, ++now);
      if (kindOf(a) === B || kindOf(a) === W) --now;
    }
    return most;
  });
}

// What a step takes beyond M (F + B), in the unit of the times, where a closed form is published for
// equal stages without latency (docs/theory.md 2.1); null: none for these settings. "most": a bound.
function closedForm(name, {K, v, M, S}, {F: f, I: i, W: w}) {
  const b = i + w, split = w <= Math.min(f, i);
  switch (name) {
    case 'gpipe': case '1f1b': case '1f1b-eager': return {excess: (K - 1) * (f + b)};
    case 'interleaved-1f1b': return M % K ? null : {excess: (K - 1) * (f + b) / v};
    case 'looped-bfs':
      return {excess: (Math.max(M, K) * (v - 1) + M + K - 1 - M * v) * (f + b) / v};
    case 'zb-h1': return split && M >= K ? {excess: (K - 1) * (f + i - w)} : null;
    case 'zb-h2':
      return split && M >= 2 * K - 1 ? {excess: (K - 1) * (f + Math.max(0, i - 2 * w))} : null;
    case 'seq1f1b': return {excess: (K - 1) * (f + b) / S};
    case 'dualpipe': return {excess: (K / 2 - 1) * (f + 2 * b - 3 * w), most: true};
    case 'dualpipev': return {excess: (K - 1) * (f + 2 * b - 3 * w) / 2, most: true};
    default: return null;
  }
}
