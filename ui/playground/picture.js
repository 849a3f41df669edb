// Draws one run as SVG: requests as blocks above the base line if they pass and below it if they are refused, and the level below that.
//
// The level is the filled area; the line is what an exact log counts in the last period, red where that is above the limit. All marks of
// a kind are one path, so a frame costs the same for ten requests and a thousand.

import { rateText, ratesOf } from './lanes.js';
import { departures, levelAt, mostInAnyPeriod, windowStarts } from './run.js';

const BIN = 7;
const ABOVE = 56;
const BELOW = 36;
const LEVEL = 100;
const TOP = ABOVE + BELOW + 10;
const SAMPLE = 2;
const FLOOR = TOP + LEVEL;
const HEIGHT = FLOOR + 4;
const AXIS = 18;
// In the order in which they are painted.
const PATHS = 'windows worst previous level queue over cap truth alarm base pass passB late wait refuse refuseB now'.split(' ');

const svgElement = (name, attributes = {}) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

/** An empty picture. */
export function makePicture() {
  const svg = svgElement('svg', { role: 'img', class: 'picture', height: HEIGHT });
  const paths = Object.fromEntries(PATHS.map((name) => [name, svg.appendChild(svgElement('path', { class: name }))]));
  const labels = svg.appendChild(svgElement('g', { class: 'labels' }));
  return { svg, paths, labels };
}

function writeLabels(group, labels) {
  while (group.childElementCount > labels.length) group.lastChild.remove();
  while (group.childElementCount < labels.length) group.append(svgElement('text'));
  labels.forEach(({ x, y, text, kind = '' }, index) => {
    const element = group.children[index];
    element.setAttribute('x', x.toFixed(1));
    element.setAttribute('y', y.toFixed(1));
    element.setAttribute('class', kind);
    if (element.textContent !== text) element.textContent = text;
  });
}

// What is stacked above the base line, and below it, from the line on. Client b has blocks of its own.
const UPPER = ['pass', 'passB', 'late', 'wait'];
const LOWER = ['refuse', 'refuseB'];

// Blocks of requests, stacked by the column of pixels in which their time lies.
function stacks(run, view) {
  const columns = Object.fromEntries([...UPPER, ...LOWER].map((kind) => [kind, new Map()]));
  const add = (kind, at) => {
    const column = Math.floor(view.x(at) / BIN);
    columns[kind].set(column, (columns[kind].get(column) ?? 0) + 1);
  };
  for (const one of run.outcomes) {
    const suffix = one.client === 'b' ? 'B' : '';
    if (!one.admitted) add(`refuse${suffix}`, one.at);
    else if (one.leaves <= one.at) add(`pass${suffix}`, one.at);
    else {
      add('wait', one.at);
      if (one.leaves <= view.now) add('late', one.leaves);
    }
  }
  return columns;
}

const heightIn = (columns, kinds, column) => kinds.reduce((sum, kind) => sum + (columns[kind].get(column) ?? 0), 0);

/** The tallest stack of a run in blocks: pictures beside each other have blocks of one size. */
export function tallest(run, view) {
  const columns = stacks(run, view);
  const highest = (kinds) =>
    Math.max(1, ...kinds.flatMap((kind) => [...columns[kind].keys()]).map((column) => heightIn(columns, kinds, column)));
  return Math.max(highest(UPPER), (highest(LOWER) * ABOVE) / BELOW);
}

function drawBlocks(paths, columns, block) {
  const size = block - (block > 3 ? 1 : 0);
  for (const kinds of [UPPER, LOWER]) {
    kinds.forEach((kind, order) => {
      let path = '';
      for (const [column, height] of columns[kind]) {
        const before = heightIn(columns, kinds.slice(0, order), column);
        for (let index = before; index < before + height; index += 1) {
          const y = kinds === UPPER ? ABOVE - (index + 1) * block : ABOVE + 3 + index * block;
          path += `M${column * BIN} ${y.toFixed(2)}h${BIN - 1}v${size.toFixed(2)}h-${BIN - 1}z`;
        }
      }
      set(paths[kind], path);
    });
  }
}

// The level of the first key at every second pixel and around every outcome: `[x, lower part, whole]`.
function levels(run, view) {
  const key = run.outcomes[0]?.key;
  const outcomes = run.outcomes.filter((one) => one.key === key);
  const points = [];
  let state = null;
  let next = 0;
  const push = (at) => {
    const [lower, upper] = levelAt(run, state, at);
    points.push([view.x(at), lower, lower + upper]);
  };
  const end = Math.min(view.now, view.from + view.span);
  for (let x = 0; ; x += SAMPLE) {
    const at = Math.min(end, view.at(x));
    while (next < outcomes.length && outcomes[next].at <= at) {
      if (outcomes[next].at >= view.from) push(outcomes[next].at);
      state = outcomes[next].state;
      if (outcomes[next].at >= view.from) push(outcomes[next].at);
      next += 1;
    }
    push(at);
    if (at >= end) return points;
  }
}

// A line of steps over times that each add or take one unit.
function countSteps(changes, view) {
  const steps = [];
  let value = 0;
  for (const [at, by] of changes.sort((one, other) => one[0] - other[0] || one[1] - other[1])) {
    if (at > view.now) break;
    value += by;
    steps.push([view.x(at), value]);
  }
  return steps;
}

/** Draws a run and returns the worst span of a period; `view` maps times to pixels, `block` is the height of a block. */
export function draw({ svg, paths, labels }, run, view, block) {
  const { lane } = run;
  const { settings, width } = view;
  const key = run.outcomes[0]?.key;
  svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute('width', width);
  drawBlocks(paths, stacks(run, view), block);

  const caps = capsOf(lane, settings);
  const highest = Math.max(2 * settings.count, ...caps.map(([cap]) => cap)) * 1.12;
  const y = (value) => FLOOR - (value / highest) * LEVEL;
  const plot = { paths, key, y, right: view.x(Math.min(view.now, view.from + view.span)) };
  drawLevel(plot, lane.level ? levels(run, view) : []);
  drawQueue(plot, run, view);
  drawTruth(plot, run, view);
  set(paths.base, `M0 ${ABOVE + 1.5}H${width}`);
  set(paths.cap, caps.map(([cap]) => `M0 ${y(cap).toFixed(1)}H${width}`).join(''));
  set(paths.now, `M${plot.right.toFixed(1)} 0V${FLOOR}`);

  const texts = caps.map(([cap, text], index) => ({ x: 2 + index * (20 + 6 * caps[0][1].length), y: y(cap) - 3, text }));
  texts.push(...drawWindows(plot, run, view));
  const worst = mostInAnyPeriod(run, view.now);
  const isOver = worst.most > settings.count && !lane.throttles;
  const [left, end] = [view.x(worst.from), view.x(worst.from + run.period)];
  set(paths.worst, isOver ? `M${left.toFixed(1)} 0H${end.toFixed(1)}V${FLOOR}H${left.toFixed(1)}Z` : '');
  if (isOver) texts.push({ x: Math.max(2, left + 4), y: 12, text: `${worst.most} in ${settings.period} s`, kind: 'bad' });
  writeLabels(labels, texts);
  return { ...worst, isOver };
}

const set = (path, d) => path.setAttribute('d', d);

function drawLevel({ paths, y }, points) {
  const area = (low, high) => {
    if (points.length === 0) return '';
    const forth = points.map((point) => `${point[0].toFixed(1)} ${y(high(point)).toFixed(1)}`);
    const back = points.map((point) => `${point[0].toFixed(1)} ${y(low(point)).toFixed(1)}`).reverse();
    return `M${forth.join('L')}L${back.join('L')}Z`;
  };
  set(paths.previous, area(() => 0, (point) => point[1]));
  set(paths.level, area((point) => point[1], (point) => point[2]));
}

function stairs({ y, right }, steps, base) {
  let path = `M0 ${y(base).toFixed(1)}`;
  for (const [x, value] of steps) path += `H${Math.max(0, x).toFixed(1)}V${y(base + value).toFixed(1)}`;
  return `${path}H${right.toFixed(1)}`;
}

function drawQueue(plot, run, view) {
  const base = run.lane.queueAbove;
  if (base === undefined) return;
  const waiting = run.outcomes.filter((one) => one.key === plot.key && one.leaves > one.at);
  const steps = countSteps(waiting.flatMap((one) => [[one.at, 1], [one.leaves, -1]]), view);
  set(plot.paths.queue, `${stairs(plot, steps, base)}V${plot.y(base).toFixed(1)}H0Z`);
}

// What an exact log counts of all that passed, and how far that is above the limit.
function drawTruth(plot, run, view) {
  if (run.lane.throttles) return;
  const times = departures(run, plot.key, view.now);
  const steps = countSteps(times.flatMap((at) => [[at, 1], [at + run.period, -1]]), view);
  set(plot.paths.truth, stairs(plot, steps, 0));
  const limit = plot.y(view.settings.count).toFixed(1);
  let over = '';
  let alarm = '';
  steps.forEach(([x, value], index) => {
    const end = steps[index + 1]?.[0] ?? plot.right;
    if (value <= view.settings.count || end <= 0) return;
    const line = `M${Math.max(0, x).toFixed(1)} ${plot.y(value).toFixed(1)}H${end.toFixed(1)}`;
    alarm += line;
    over += `${line}V${limit}H${Math.max(0, x).toFixed(1)}Z`;
  });
  set(plot.paths.over, over);
  set(plot.paths.alarm, alarm);
}

// The edges of windows, and the labels of those that are wide enough.
function drawWindows({ paths, key }, run, view) {
  const wide = (run.period / view.span) * view.width;
  const starts = wide < 6 ? [] : windowStarts(run, view.from, Math.min(view.now, view.from + view.span));
  set(paths.windows, starts.map((start) => `M${view.x(start).toFixed(1)} ${TOP - 6}V${FLOOR}`).join(''));
  if (wide < 110) return [];
  const isRefill = run.lane.windows === 'refill';
  const texts = starts.map((start) => ({ start, text: isRefill ? 'refill' : `${countedIn(run, key, start)} in this window` }));
  return texts
    .filter(({ text }) => !text.startsWith('0 '))
    .map(({ start, text }) => ({ x: view.x(start) + 3, y: TOP + 4, text, kind: isRefill ? '' : 'count' }));
}

// The dashed lines: what the rate allows, and the burst or the end of the queue.
function capsOf(lane, settings) {
  const { count, queue } = settings;
  const rate = [count, ratesOf(settings).map(rateText).join(' and ')];
  if (lane.queueAbove !== undefined) return [rate, [lane.queueAbove + queue, `queue ${queue}`]];
  return lane.cap === count ? [rate] : [rate, [lane.cap, `burst ${lane.cap}`]];
}

function countedIn(run, key, start) {
  const inside = run.outcomes.filter((one) => one.key === key && one.admitted && one.at >= start && one.at < start + run.period);
  return inside.reduce((sum, one) => sum + one.cost, 0);
}

/** The shared axis of time. */
export function drawAxis(svg, view) {
  svg.setAttribute('viewBox', `0 0 ${view.width} ${AXIS}`);
  svg.setAttribute('width', view.width);
  svg.setAttribute('height', AXIS);
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 3600].map((step) => step * 1000);
  const step = steps.find((one) => (one / view.span) * view.width >= 56) ?? view.span;
  const texts = [];
  for (let at = Math.ceil(view.from / step) * step; view.x(at) < view.width - 12; at += step) {
    texts.push({ x: view.x(at), y: 13, text: `${+(at / 1000).toFixed(1)} s`, kind: at === 0 ? 'first' : 'tick' });
  }
  writeLabels(svg, texts);
}
