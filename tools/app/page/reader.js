// A schedule of the user's own: PyTorch's CSV dialect, read and judged as plan/schedule/schedule_csv
// and plan/schedule/validate do. What is wrong is thrown as a sentence with its row.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const MESSAGE = /^\d+(SEND_F|RECV_F|SEND_B|RECV_B)\d+(:\d+)?$|^\d+(UNSHARD|RESHARD|REDUCE_GRAD|OPTIMIZER)$/;
const COMPUTE = /^(\d+)(F|BW|B|I|W)(\d+)$/;

// Messages and waits in files are checked for form and dropped; old files batch two as
// "0SEND_F2_1RECV_B0".
function isMessage(text) {
  if (text.length > 80) return false;  // no two numbers are so long
  if (MESSAGE.test(text)) return true;
  const awaited = text.replace('WAIT_', '');
  if (awaited !== text && /SEND|REDUCE_GRAD/.test(awaited) && MESSAGE.test(awaited)) return true;
  for (let at = text.indexOf('_'); at >= 0; at = text.indexOf('_', at + 1))
    if (MESSAGE.test(text.slice(0, at)) && MESSAGE.test(text.slice(at + 1))) return true;
  return false;
}

function cellsOf(text) {
  const rows = [];
  let slices = 1;
  for (const line of text.split(/\r?\n/)) {
    const head = /^# segments=\s*(\d+)\s*$/.exec(line);
    if (rows.length === 0 && line.startsWith('# segments=')) {
      if (!head || Number(head[1]) < 1)
        throw new Error('row 1: expected the slices of a sequence, as "# segments=2"');
      slices = Number(head[1]);
    } else if (line.trim() || line.includes(',')) {
      rows.push(line.split(',').flatMap(cell => {
        const pair = /^\(([^;]*);(.*)\)OVERLAP_F_B$/.exec(cell.trim());
        return pair ? [pair[1], pair[2]] : cell.trim() || [];
      }));
    }
  }
  return {rows, slices};
}

function readCsv(text, name) {
  const {rows, slices} = cellsOf(text);
  const found = rows.map((row, r) => row.map(cell => {
    const action = COMPUTE.exec(cell);
    if (!action && !isMessage(cell))
      throw new Error(`row ${r + 1}: "${cell.slice(0, 60)}": expected an action like 2F0, 1I2, 3B1, ` +
                      '0W4 or 0SEND_F3');
    return action && {stage: Number(action[1]), letters: action[2], unit: Number(action[3])};
  }).filter(Boolean));
  const seen = new Set(found.flat().map(a => a.letters));
  if (!found.flat().length) throw new Error('expected one row of actions a rank, found none');
  if (seen.has('BW') && seen.has('I'))
    throw new Error('ambiguous dialect: BW (old files) and I (new files) in one schedule');
  // Where W is beside B without I, B is what is called I today.
  const old = seen.has('BW') || (seen.has('B') && seen.has('W') && !seen.has('I'));
  const kind = letters => letters === 'BW' ? B : letters === 'B' && old ? I : KINDS.indexOf(letters);
  return judged(placed(found.map(row => row.map(a => ({...a, kind: kind(a.letters)}))), slices, name));
}

function placed(rows, slices, name) {
  const all = rows.flat();
  let stages = 1, units = 1;
  for (const {stage, unit} of all) {
    stages = Math.max(stages, stage + 1);
    units = Math.max(units, unit + 1);
  }
  if (stages * units > all.length)
    throw new Error(`${stages} stages and ${units} micro-batches need at least ${stages * units} ` +
                    `actions, found ${all.length}`);
  const place = Array(stages).fill(-1);
  rows.forEach((row, r) => row.forEach(({stage}) => {
    if (place[stage] >= 0 && place[stage] !== r)
      throw new Error(`row ${r + 1}: stage ${stage} is also in row ${place[stage] + 1}`);
    place[stage] = r;
  }));
  const missing = place.indexOf(-1);
  if (missing >= 0) throw new Error(`stage ${missing} is in no row`);
  if (units % slices) throw new Error(`${slices} slices do not make whole micro-batches of ${units}`);
  // The upper half of the stages are copies where the halves share no micro-batch.
  const half = stages / 2, low = new Set(all.filter(a => a.stage < half).map(a => a.unit));
  const copies = stages % 2 === 0 && all.every(a => a.stage < half || !low.has(a.unit));
  return {name, ranks: rows.length, stages: copies ? half : stages, microbatches: units / slices, slices,
          replicas: copies ? 2 : 1, place,
          orders: rows.map(row => row.map(a => (a.stage * units + a.unit) * 8 + a.kind))};
}

// Each stage and micro-batch has one F, then one B, or one I and then one W, with gradients in
// ascending order, slices from the last. That the ranks' orders can be carried out together is seen
// when they are timed.
function judged(s) {
  const units = unitsOf(s), seen = new Uint8Array(s.place.length * units);
  const owner = Array(units).fill(-1), last = Array(s.place.length).fill(-1);
  s.orders.forEach((order, rank) => order.forEach(action => {
    const kind = kindOf(action), cell = cellOf(action), stage = stageOf(s, action);
    const unit = unitOf(s, action), name = nameOf(s, action), has = k => seen[cell] & 1 << k;
    const refuse = why => { throw new Error(`row ${rank + 1}: ${name} ${why}`); };
    if (kind === F) {
      if (has(F)) refuse('a second time');
      const replica = Math.floor(stage / s.stages);
      if (owner[unit] >= 0 && owner[unit] !== replica) refuse('already goes through the other copy');
      owner[unit] = replica;
    } else if (kind === W ? has(B) || has(W) : has(B) || has(I)) {
      refuse('is its second backward');
    } else if (kind === W ? !has(I) : !has(F)) {
      refuse(`comes before its ${kind === W ? 'I' : 'F'}`);
    }
    seen[cell] |= 1 << kind;
    if (kind === B || kind === W) {
      const turn = unit - unit % s.slices + s.slices - 1 - unit % s.slices;
      if (turn < last[stage])
        refuse('comes after the gradient of a later micro-batch (weir schedule --allow-reordered ' +
               'accepts it)');
      last[stage] = turn;
    }
  }));
  for (let cell = 0; cell < seen.length; ++cell) {
    const stage = Math.floor(cell / units), unit = cell % units;
    const mine = owner[unit] < 0 || owner[unit] === Math.floor(stage / s.stages);
    if (mine && !(seen[cell] & (1 << B | 1 << W)))
      throw new Error(`stage ${stage} has no ${!(seen[cell] & 1) ? 'F' : 'whole backward'} of ` +
                      `micro-batch ${unit}`);
  }
  return s;
}
