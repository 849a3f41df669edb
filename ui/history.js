// Owns the last hour of the gateway as /history says it: steps of ten seconds, and marks. It is bounded, as the gateway's own is.

import { h } from './dom.js';

const SPAN = 3600;
/** Seconds that a chart shows of a gateway that has just started. */
const LEAST_SPAN = 300;
const MOST_STEPS = 361;
const MOST_MARKS = 256;

/** The ranges that charts show, by name. */
export const RANGES = { hour: 'the last hour', live: 'the last two minutes' };
let range = 'hour';
export const shownRange = () => range;

/** Makes the buttons that choose the range of all charts. */
export function rangeButtons(onChange) {
  const buttons = Object.entries({ hour: 'Last hour', live: 'Last two minutes' }).map(([name, label]) => h('button', {
    type: 'button',
    'aria-pressed': String(name === range),
    onclick() {
      range = name;
      for (const [at, button] of buttons.entries()) button.setAttribute('aria-pressed', String(Object.keys(RANGES)[at] === range));
      onChange();
    },
  }, label));
  return h('div.ranges', { role: 'group', 'aria-label': 'Time that charts show' }, buttons);
}

/** The name and the color of a mark by its kind. */
const KINDS = {
  start: ['Start'], upgrade: ['Upgrade'], drain: ['Drain', 'bad'], reload: ['Reload'], 'reload-refused': ['Reload refused', 'bad'], ban: ['Ban'],
  unban: ['Ban lifted'], key: ['Key changed'], 'server-drain': ['Server drained'], 'server-undrain': ['Server back'], purge: ['Purge'],
  rule: ['Temporary rule'], problem: ['Problem', 'bad'], recovery: ['Recovered', 'good'],
};
export const nameOf = (mark) => (KINDS[mark.kind]?.[0] ?? mark.kind) + (mark.count > 1 ? ` (${mark.count})` : '');
export const colorOf = (mark) => KINDS[mark.kind]?.[1] ?? '';

export class History {
  steps = [];
  marks = [];
  #started = null;
  #heard = 0;

  /** Takes the whole history, or what is new of it. */
  take(value) {
    if (value.started !== this.#started) this.steps = this.marks = [];
    this.#started = value.started;
    this.#heard = performance.now();
    const fresh = value.steps.ended.map((ended, at) => ({
      number: value.first + at, ended, seconds: value.steps.seconds[at], figure: (name) => value.steps[name][at],
      limits: value.limits,
      // A limit may have the name of a property that every object has.
      limit: (name, answer) => (Object.hasOwn(value.limits, name) ? value.limits[name][answer][at] : 0),
    }));
    this.steps = [...this.steps.filter((step) => step.number < value.first), ...fresh].slice(-MOST_STEPS);
    const known = new Map([...this.marks, ...value.marks].map((mark) => [mark.id, mark]));
    this.marks = [...known.values()].sort((a, b) => a.id - b.id).slice(-MOST_MARKS);
  }

  /** Seconds since a time of the gateway's clock, in milliseconds. */
  ago(at) {
    const last = this.steps.at(-1)?.ended ?? at;
    return (last - at + performance.now() - this.#heard) / 1000;
  }

  /** The marks of the last hour, the latest first, each with the seconds since then. */
  recent() {
    return this.marks.map((mark) => ({ ...mark, ago: this.ago(Date.parse(mark.at)) })).filter((mark) => mark.ago <= SPAN).reverse();
  }

  /** The sum of an answer of a limit within the hour. */
  sum(name, answer) {
    return this.steps.reduce((sum, step) => sum + step.limit(name, answer), 0);
  }

  /** Rates of results, for a chart. */
  rates() {
    const failed = (step) => step.figure('failed_by_gateway') + step.figure('failed_by_origins') + step.figure('clients_gone');
    return this.#points({
      answered: (step) => step.figure('all') - step.figure('rejected') - failed(step),
      failed,
      rejected: (step) => step.figure('rejected'),
      shadow: (step) => Object.keys(step.limits).reduce((sum, name) => sum + step.limit(name, 'shadow_rejected'), 0),
    }, perSecond);
  }

  /** Rates of the answers of a limit, for a chart. */
  limit(name) {
    const answer = (kind) => (step) => step.limit(name, kind);
    return this.#points({ admitted: answer('admitted'), rejected: answer('rejected'), shadow: answer('shadow_rejected') }, perSecond);
  }

  /** Percentiles of latency, for a chart. */
  latency() {
    const figure = (name) => (step) => step.figure(name);
    // The last step may have no request yet.
    const value = (count, at, steps) => count(steps[at]) ?? (at > 0 && at === steps.length - 1 ? count(steps[at - 1]) : null);
    return this.#points({ p50: figure('p50'), p90: figure('p90'), p99: figure('p99') }, value);
  }

  /** The seconds since the first step, an hour at most. */
  #span() {
    const first = this.steps[0];
    return first ? Math.min(SPAN, Math.max(LEAST_SPAN, this.ago(first.ended) + first.seconds)) : SPAN;
  }

  /** Two points of each step, its begin and its end, since it has one value. */
  #points(counts, value) {
    const points = { span: this.#span(), ago: [] };
    for (const kind of Object.keys(counts)) points[kind] = [];
    this.steps.forEach((step, at) => {
      const end = this.ago(step.ended);
      if (end > points.span) return;
      points.ago.push(Math.min(points.span, end + step.seconds), end);
      for (const [kind, count] of Object.entries(counts)) {
        const one = value(count, at, this.steps);
        points[kind].push(one, one);
      }
    });
    return points;
  }
}

/** The rate of a step. The last one has just begun, so that its rate is that of ten seconds, of which the step before has the rest. */
function perSecond(count, at, steps) {
  const step = steps[at];
  const before = steps[at - 1];
  const rest = 10 - step.seconds;
  if (at < steps.length - 1 || rest <= 0 || !before) return count(step) / Math.max(1, step.seconds);
  return (count(step) + count(before) * rest / Math.max(1, before.seconds)) / 10;
}
