// A plan in time: its schedule lowered with the plan's own costs as plan/program/lower and
// costmodel/table do, walked as sim/engine does, accounted for as traces/metrics and sim/bounds do.
// What is shared (a node's card, a device that computes and sends at once) is not slowed here:
// `weir simulate` does that, and the page says where the two differ.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const COMPUTES = 0, SENDS = 1, RECEIVES = 2, REDUCES = 3;  // kinds of lanes
const isBackward = kind => kind === B || kind === I;

// Stages that hold copies of a stage's weights or share one of them, itself included.
function copiesOf(s, tied, stage) {
  const group = new Set(), join = other => {
    for (let r = 0; r < s.replicas; ++r) group.add(r * s.stages + other % s.stages);
  };
  join(stage);
  for (const tie of tied) if (tie.includes(stage % s.stages)) tie.forEach(join);
  return [...group].sort((a, b) => a - b);
}

// Each rank's order with R before its B or I, and the updates of its stages.
function withRecompute(s, job) {
  const units = unitsOf(s), spared = unit => job.keepLast && Math.floor(unit / s.slices) === s.microbatches - 1;
  const orders = s.orders.map(order => order.flatMap(action => {
    const rebuilt = isBackward(kindOf(action)) && job.recompute[stageOf(s, action)] &&
                    !spared(unitOf(s, action));
    return rebuilt ? [cellOf(action) * 8 + R, action] : [action];
  }));
  s.place.forEach((rank, stage) => orders[rank].push(stage * units * 8 + O));
  return {...s, orders};
}

// Durations in ns; `by`: factors of F, I, W and of messages.
function pricesOf(job, by) {
  const round = Math.round;
  return {
    of(stage, kind, spared) {
      const c = job.stages[stage], half = c.I + c.W;
      const rebuild = isBackward(kind) && spared ? c.rebuild : 0;
      const full = half ? (by.I * c.I + by.W * c.W) / half : (by.I + by.W) / 2;
      return round([by.F * c.F, full * (c.B - rebuild), by.I * (c.I - rebuild), by.W * c.W,
                    by.F * c.R, c.optimizer][kind]);
    },
    reduce: stage => job.stages[stage].reduce,
    message: (forward, from) => (forward ? job.forward : job.backward)[from].map(t => round(by.latency * t)),
  };
}

class PlanProgram {
  constructor(s, job, by) {
    Object.assign(this, {s, job, prices: pricesOf(job, by), lanes: [], lane: [], kind: [], waits: [],
                         slots: [], duration: [], peer: []});
    this.lowered = withRecompute(s, job);
    const units = unitsOf(s), cells = s.place.length * units;
    this.forward = new Int32Array(cells).fill(-1);
    this.backward = this.forward.slice();
    this.gotF = this.forward.slice();
    this.gotB = this.forward.slice();
    this.lastGradient = s.place.map(() => -1);
    this.compute = this.lowered.orders.map(order => this.open(COMPUTES, order.map(a => this.priced(a))));
    this.index();
    this.addMessages();
    this.addReductions();
    this.addWaits();
  }

  // A lane of operations with these durations: their ids.
  open(kind, durations) {
    const lane = this.lanes.length, ids = durations.map((duration, i) => {
      this.lane.push(lane);
      this.kind.push(kind);
      this.waits.push([]);
      this.slots.push(-1);
      this.peer.push(-1);
      return this.duration.push(duration) - 1;
    });
    this.lanes.push(ids);
    return ids;
  }
  priced(action) {
    const s = this.s, last = Math.floor(unitOf(s, action) / s.slices) === s.microbatches - 1;
    return this.prices.of(stageOf(s, action), kindOf(action), this.job.keepLast && last);
  }
  index() {
    this.compute.forEach((ids, rank) => ids.forEach((id, at) => {
      const action = this.lowered.orders[rank][at], kind = kindOf(action), cell = cellOf(action);
      if (kind === F) this.forward[cell] = id;
      if (isBackward(kind)) this.backward[cell] = id;
      if (kind === B || kind === W) this.lastGradient[stageOf(this.s, action)] = id;
    }));
  }
  // In the order in which they are made, a first-in-first-out queue an edge; with `slots` a send
  // waits until what took the message so many before it has ended.
  addMessages() {
    const {s, job} = this, units = unitsOf(s), edges = new Map();
    this.compute.forEach((ids, rank) => ids.forEach((id, at) => {
      const action = this.lowered.orders[rank][at], kind = kindOf(action), stage = stageOf(s, action);
      const way = kind === F && !isLast(s, stage) ? 1 : isBackward(kind) && !isFirst(s, stage) ? -1 : 0;
      const to = s.place[stage + way];
      if (!way || to === rank) return;
      const edge = rank * s.ranks + to;
      if (!edges.has(edge)) edges.set(edge, []);
      edges.get(edge).push({id, stage, way, user: cellOf(action) + way * units});
    }));
    for (const messages of edges.values()) {
      const prices = messages.map(m => this.prices.message(m.way > 0, m.stage));
      const sends = this.open(SENDS, prices.map(p => p[0])), got = this.open(RECEIVES, prices.map(p => p[1]));
      messages.forEach(({id, way, user}, i) => {
        this.waits[sends[i]].push(id);
        this.waits[got[i]].push(sends[i]);
        this.peer[got[i]] = sends[i];
        (way > 0 ? this.gotF : this.gotB)[user] = got[i];
        const freed = messages[i - job.slots];
        if (job.slots > 0 && freed)
          this.slots[sends[i]] = (freed.way > 0 ? this.forward : this.backward)[freed.user];
      });
    }
  }
  addReductions() {
    const {s, job} = this;
    this.copies = s.place.map((_, stage) => copiesOf(s, job.tied, stage));
    this.reduces = this.copies.map(copies => job.reduceAll || job.clips || copies.length > 1);
    this.reduce = s.place.map(() => -1);
    for (let rank = 0; rank < s.ranks; ++rank) {
      const stages = s.place.flatMap((r, stage) => r === rank && this.reduces[stage] ? [stage] : []);
      this.open(REDUCES, stages.map(stage => this.prices.reduce(stage))).forEach((id, i) => {
        this.reduce[stages[i]] = id;
        for (const copy of this.copies[stages[i]])
          if (this.lastGradient[copy] >= 0) this.waits[id].push(this.lastGradient[copy]);
      });
    }
  }
  addWaits() {
    const {s, job} = this, units = unitsOf(s);
    this.compute.forEach((ids, rank) => ids.forEach((id, at) => {
      const action = this.lowered.orders[rank][at], kind = kindOf(action), cell = cellOf(action);
      const stage = stageOf(s, action);
      const value = (got, local) => this.waits[id].push(got[cell] >= 0 ? got[cell] : local);
      if (kind === F && !isFirst(s, stage)) value(this.gotF, this.forward[cell - units]);
      if ((isBackward(kind) || (kind === R && job.fused)) && !isLast(s, stage))
        value(this.gotB, this.backward[cell + units]);
      if (kind === O && this.reduces[stage])
        this.waits[id].push(...(job.clips ? this.reduce.filter(r => r >= 0)
                                          : this.copies[stage].map(copy => this.reduce[copy])));
    }));
  }

  // Every operation once all that it waits for has been: starts, ends, and the order of the walk.
  walk() {
    const count = this.duration.length, left = new Int32Array(count), after = this.waits.map(() => []);
    const start = new Float64Array(count), end = start.slice(), before = new Int32Array(count).fill(-1);
    const ready = [], order = [];
    for (const ids of this.lanes) ids.forEach((id, i) => { if (i) before[id] = ids[i - 1]; });
    for (let id = 0; id < count; ++id) {
      const all = [...this.waits[id], before[id], this.slots[id]].filter(other => other >= 0);
      left[id] = all.length;
      for (const other of all) after[other].push(id);
      if (!left[id]) ready.push(id);
    }
    while (ready.length) {
      const id = ready.pop(), free = before[id] >= 0 ? end[before[id]] : 0;
      order.push(id);
      if (this.kind[id] === RECEIVES) {  // on its way from the start of its send, and in order
        const send = this.peer[id];
        start[id] = Math.max(start[send], free);
        end[id] = Math.max(end[send] + this.duration[id], free);
      } else {
        let from = free;
        for (const other of this.waits[id]) from = Math.max(from, end[other]);
        if (this.slots[id] >= 0) from = Math.max(from, end[this.slots[id]]);
        start[id] = from + (this.kind[id] === COMPUTES ? this.job.host : 0);
        end[id] = start[id] + this.duration[id];
      }
      for (const other of after[id]) if (--left[other] === 0) ready.push(other);
    }
    if (order.length < count) throw new Error(`deadlock with ${this.job.slots} receive slots an edge`);
    return {start, end, order};
  }
}

// A gap's causes from its end: the host's, the message's, and before it a wait (docs/design.md 9).
function idleInPlan(program, {start, end}, rank, step) {
  const ids = program.compute[rank], kinds = program.lowered.orders[rank].map(kindOf);
  const first = ids.find((_, at) => isBackward(kinds[at]));
  const fillEnd = first === undefined ? step : start[first];
  const last = test => ids.reduce((found, id, at) => test(kinds[at]) ? end[id] : found, 0);
  const drainStart = last(kind => kind === F), computeEnd = last(kind => kind !== O);
  const idle = {fill: 0, drain: 0, imbalance: 0, communication: 0, host: 0, optimizer: 0};
  let cursor = 0;
  const wait = to => {
    const take = (cause, until) => {
      const amount = Math.max(Math.min(to, until) - cursor, 0);
      cursor += amount;
      idle[cause] += amount;
    };
    take('fill', Math.min(fillEnd, computeEnd));
    take('imbalance', Math.min(drainStart, computeEnd));
    take('drain', computeEnd);
    take('optimizer', to);
  };
  for (const id of ids) {
    const to = start[id];
    if (to > cursor) {
      let there = cursor, sent = to;
      for (const other of program.waits[id]) there = Math.max(there, end[other]);
      for (const other of program.waits[id]) {
        const kind = program.kind[other];
        if ((kind === RECEIVES && end[other] === there) || kind === REDUCES) sent = Math.min(sent, start[other]);
      }
      there = Math.min(there, to);
      sent = Math.min(Math.max(sent, cursor), there);
      idle.communication += there - sent;
      idle.host += to - there;
      wait(sent);
    }
    cursor = Math.max(cursor, end[id]);
  }
  wait(step);
  return idle;
}

// Heads and tails over what no order can avoid (docs/theory.md 3.2).
function boundOfPlan(program, order) {
  const {s, duration} = program, count = duration.length, head = new Float64Array(count), tail = head.slice();
  const waits = program.waits.map(own => own.slice());
  program.compute.forEach((ids, rank) => {
    const backward = new Map();
    ids.forEach((id, at) => {
      const action = program.lowered.orders[rank][at], kind = kindOf(action), stage = stageOf(s, action);
      if (isBackward(kind)) {
        waits[id].push(program.forward[cellOf(action)]);
        backward.set(stage, id);
      }
      if (kind === O && backward.has(stage)) waits[id].push(backward.get(stage));
    });
  });
  for (const id of order)
    for (const other of waits[id]) head[id] = Math.max(head[id], head[other] + duration[other]);
  for (const id of order.slice().reverse())
    for (const other of waits[id]) tail[other] = Math.max(tail[other], tail[id] + duration[id]);
  let best = 0;
  for (let id = 0; id < count; ++id) best = Math.max(best, head[id] + duration[id] + tail[id]);
  program.compute.forEach((ids, rank) => {
    let first = Infinity, last = Infinity, all = 0, path = 0;
    ids.forEach((id, at) => {
      const kind = kindOf(program.lowered.orders[rank][at]);
      first = Math.min(first, head[id]);
      all += duration[id];
      if (kind === W || kind === O) return;
      path += duration[id];
      last = Math.min(last, tail[id]);
    });
    if (ids.length) best = Math.max(best, first + Math.max(all, path + last));
  });
  return best;
}

// `by`: {F, I, W, latency}, factors. In the shape of timeSchedule's, of orders with R and updates.
function timePlan(s, job, by) {
  const program = new PlanProgram(s, job, by), walked = program.walk(), {start, end} = walked;
  const step = end.reduce((a, b) => Math.max(a, b), 0) + job.overhead, ranks = s.ranks;
  const of = times => program.compute.map(ids => Float64Array.from(ids, id => times[id]));
  const busy = program.compute.map(ids => ids.reduce((sum, id) => sum + program.duration[id], 0));
  let span = 0, work = 0;
  program.compute.forEach((ids, rank) => {
    const own = ids.filter((_, at) => kindOf(program.lowered.orders[rank][at]) !== O);
    for (const id of own) work += program.duration[id];
    if (own.length) span = Math.max(span, end[own[own.length - 1]] - start[own[0]]);
  });
  const all = busy.reduce((a, b) => a + b, 0);
  return {schedule: program.lowered, base: s, program, walked, starts: of(start), ends: of(end), step, span, busy,
          idle: program.compute.map((_, rank) => idleInPlan(program, walked, rank, step)),
          bubble: step ? 1 - all / 1e9 / ranks / (step / 1e9) : 0,
          bubbleSpan: span ? 1 - work / 1e9 / ranks / (span / 1e9) : 0,
          bound: boundOfPlan(program, walked.order) + job.overhead, held: inFlight(s)};
}

// When what an action of a plan awaits was made, sent and there; null: nothing is awaited.
function awaitedInPlan({program, walked}, rank, at) {
  const {s} = program, id = program.compute[rank][at], action = program.lowered.orders[rank][at];
  if (kindOf(action) === O || !program.waits[id].length) return null;
  const got = program.waits[id][0], crosses = program.kind[got] === RECEIVES;
  const made = crosses ? program.waits[program.peer[got]][0] : got;
  const other = program.lane[made];  // the lanes of ranks come first
  const awaited = program.lowered.orders[other][program.compute[other].indexOf(made)];
  return {stage: stageOf(s, awaited), rank: other, cell: cellOf(awaited), kind: kindOf(awaited), crosses,
          made: walked.end[made], sent: walked.start[got], there: walked.end[got]};
}
