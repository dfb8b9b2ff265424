// A plan's forecast and its measured step, one above the other, action by action.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const PAIR = 2 * ROW + 6, FULL_COLOUR = 0.25;

// How much longer the measured action is, as a share of the forecast one.
function changeOf([from, to], [start, end]) {
  return to > from ? (end - start) / (to - from) - 1 : end > start ? Infinity : 0;
}

function mixed(a, b, share) {
  const parts = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  const [x, y] = [parts(a), parts(b)];
  return `rgb(${x.map((c, i) => Math.round(c + share * (y[i] - c))).join(' ')})`;
}

// Names and times of each rank's actions, forecast and measured; made once.
function pairsOfPlan() {
  const s = withRecompute(readCsv(PLAN.csv, ''), PLAN);
  return s.orders.map((order, rank) => order.map((action, at) => ({
    kind: kindOf(action), name: nameOf(s, action), forecast: PLAN.times[rank][at],
    measured: PLAN.measured.times[rank][at]})));
}

function drawMeasured() {
  const measured = PLAN.measured, canvas = $('pairs');
  drawMeasured.pairs ||= pairsOfPlan();
  $('measured').hidden = false;
  const width = Math.max(300, $('measured').clientWidth) * zoom, height = drawMeasured.pairs.length * PAIR + SCALE;
  const painter = canvasPainter(canvas, width, height), ink = colour('ink'), idle = colour('rule');
  const span = Math.max(PLAN.step, ...measured.times.flat().map(t => t[1]), 1);
  const x = ns => LEFT + ns / span * (width - LEFT - RIGHT);
  const red = colour('red'), blue = colour('blue'), grey = greyOfPage();
  const fills = KINDS.map(k => colour(k)), ons = KINDS.map(k => colour(k + '-on'));
  painter.box(0, 0, width, height, colour('page'));
  drawMeasured.pairs.forEach((row, rank) => {
    const top = rank * PAIR;
    painter.text(LEFT - 6, top + ROW + 4, `rank ${rank}`, ink, 13, 'end');
    for (const [down, which] of [[0, 'forecast'], [ROW, 'measured']]) {
      painter.box(LEFT, top + down, width - LEFT - RIGHT, ROW - 2, idle);
      for (const pair of row) {
        const left = x(pair[which][0]), w = Math.max(x(pair[which][1]) - left, 0.5);
        const change = changeOf(pair.forecast, pair.measured);
        const fill = which === 'forecast' ? fills[pair.kind]
                                          : mixed(grey, change > 0 ? red : blue,
                                                  Math.min(Math.abs(change) / FULL_COLOUR, 1));
        painter.box(left, top + down, w > 4 ? w - 1 : w, ROW - 2, fill);
        if (which === 'forecast' && pair.name.length * 6.6 + 2 < w)
          painter.text(left + w / 2, top + 13, pair.name, ons[pair.kind], 11, 'middle');
      }
    }
  });
  for (const tick of ticks(span, Math.max(2, Math.floor(width / 120))))
    painter.text(x(tick), height - 11, ms(tick), ink, 13, tick ? 'middle' : 'start');
  canvas.nsAt = at => (at - LEFT) / (width - LEFT - RIGHT) * span;
  sayMeasured(measured);
}

// Neither red nor blue, on either page.
const greyOfPage = () => matchMedia('(prefers-color-scheme: dark)').matches ? '#8a8d92' : '#b9bcc1';

function sayMeasured(measured) {
  const error = measured.error === null ? '' :
      `: the forecast is ${percent(Math.abs(measured.error))} too ${measured.error > 0 ? 'long' : 'short'}`;
  const within = PLAN.interval ? `, between ${ms(PLAN.interval[0])} and ${ms(PLAN.interval[1])}` : '';
  $('error').textContent = `Forecast: ${ms(PLAN.step)}${within}. Measured in ${measured.name}: ` +
      `${ms(measured.step)}, the median of ${measured.steps} steps${error}.`;
  const signed = ns => `${ns > 0 ? '+' : ''}${ms(ns)}`;
  const parts = measured.waterfall.filter(([, ns]) => ns !== 0);
  const sum = parts.reduce((all, [, ns]) => all + ns, 0);
  $('waterfall').innerHTML = heads(['where the difference comes from', 'measured less forecast', 'of the forecast']) +
      [...parts, ['together', sum]].map(([cause, ns]) =>
          `<tr><td>${escaped(cause)}</td>${cell(signed(ns))}${cell(percent(ns / PLAN.step))}</tr>`).join('');
}

function tellPair(event) {
  const canvas = $('pairs'), rank = Math.floor(event.offsetY / PAIR), row = drawMeasured.pairs?.[rank];
  if (!row || !canvas.nsAt) return;
  const ns = canvas.nsAt(event.offsetX), which = event.offsetY % PAIR < ROW ? 'forecast' : 'measured';
  const pair = row.find(p => ns >= p[which][0] && ns < p[which][1]);
  if (!pair) return void ($('pair').textContent = 'Point at an action.');
  const length = ([from, to]) => ms(to - from), change = changeOf(pair.forecast, pair.measured);
  const late = pair.measured[0] - pair.forecast[0];
  $('pair').textContent = `${pair.name} on rank ${rank}: forecast ${length(pair.forecast)} at ${ms(pair.forecast[0])}, ` +
      `measured ${length(pair.measured)} at ${ms(pair.measured[0])}: ${percent(change)} longer, ` +
      `begun ${ms(Math.abs(late))} ${late < 0 ? 'earlier' : 'later'}.`.replace('-', '\u2212');
}
