// One lane on the page: its picture, what its limit stores, and what the next request would get.

import { responseFields, rateStatus } from './fields.js';
import { delayOf, rateText, ratesOf } from './lanes.js';
import { draw, makePicture } from './picture.js';
import { START_MILLIS, mostInAnyPeriod, nextOutcome, stateAt } from './run.js';

/** An element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const write = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};
const paint = (element, kind) => {
  if (element.className !== kind) element.className = kind;
};

/** The parts of a lane's article. */
export function makeLaneView(id, { title, toml }) {
  const parts = { picture: makePicture(), sums: make('span'), worst: make('strong'), bar: make('span', { className: 'bar' }) };
  Object.assign(parts, { stored: make('span'), status: make('strong'), fields: make('pre') });
  parts.bar.ariaHidden = 'true';
  const heading = make('h2', { textContent: title, id: `lane-${id}` });
  const head = make('header', {}, heading, make('code', { textContent: toml }), make('p', {}, parts.sums, ' ', parts.worst));
  const side = make(
    'dl',
    {},
    make('div', {}, make('dt', { textContent: 'It stores' }), make('dd', {}, parts.bar, parts.stored)),
    make('div', {}, make('dt', { textContent: 'The next request gets' }), make('dd', {}, parts.status, parts.fields)),
  );
  parts.graph = make('div', { className: 'graph' }, parts.picture.svg);
  parts.article = make('article', {}, head, parts.graph, side);
  parts.article.dataset.lane = id;
  parts.article.setAttribute('aria-labelledby', heading.id);
  return parts;
}

function statusOf({ decision }) {
  if (!decision.admitted) {
    const { refusingRate, statuses } = decision;
    return [`429 Too Many Requests${statuses.length > 1 ? `: ${rateText(statuses[refusingRate])}` : ''}`, 'bad'];
  }
  const delay = delayOf(decision);
  return delay > 0 ? [`200 OK after ${(delay / 1000).toFixed(2)} s`, 'wait'] : ['200 OK', 'good'];
}

function fieldLines({ decision, exceeded, limit }) {
  // A limit that marks is not shown to clients.
  const fields = limit === 'fast' ? [] : responseFields(limit, decision);
  const lines = fields.map(([name, value]) => `${name}: ${value}`);
  if (exceeded && decision.admitted) lines.push(`to the origin: X-Sluicegate-Limit: ${rateStatus('fast', exceeded)}`);
  return lines.length > 0 ? lines.join('\n') : 'no fields: a limit that marks is not shown';
}

/** Brings a lane up to date with its run. */
export function showLane(parts, run, view, block) {
  const { settings, now, client, cost } = view;
  const worst = draw(parts.picture, run, view, block);
  const passed = run.outcomes.filter((one) => one.admitted);
  const waited = passed.filter((one) => one.leaves > one.at).length;
  const refused = run.outcomes.length - passed.length;
  const sums = [`${passed.length} pass`, ...(waited ? [`${waited} of them wait`] : []), `${refused} refused`].join(', ');
  const byClient = ['a', 'b']
    .map((name) => [name, run.outcomes.filter((one) => one.client === name)])
    .filter(([, all]) => all.length > 0)
    .map(([name, all]) => `${name} ${all.filter((one) => one.admitted).length} of ${all.length}`);
  write(parts.sums, byClient.length > 1 ? `${sums} (${byClient.join(', ')})` : sums);
  const rates = ratesOf(settings);
  const mosts = rates.map(({ period }) => mostInAnyPeriod(run, now, period * 1000).most);
  const most = `at most ${rates.map(({ period }, index) => `${mosts[index]} in ${period} s`).join(', ')}`;
  const isOver = !run.lane.throttles && rates.some(({ count }, index) => mosts[index] > count);
  write(parts.worst, `${most}${isOver ? ', above the limit' : ''}`);
  paint(parts.worst, run.lane.throttles ? '' : isOver ? 'bad' : 'good');
  parts.picture.svg.setAttribute('aria-label', `${sums}; ${most}, the limit is ${rates.map(rateText).join(', ')}`);
  Object.assign(parts.article.dataset, { passed: passed.length, waited, refused, most: worst.most });

  const { state, view: seen, further, waiting } = stateAt(run, client, now);
  const [bar, text] = run.lane.stored(seen, START_MILLIS + now, START_MILLIS, state, waiting);
  write(parts.bar, bar);
  write(parts.stored, text + further);
  const next = nextOutcome(run, client, now, cost);
  const [status, kind] = statusOf(next);
  write(parts.status, status);
  paint(parts.status, kind);
  write(parts.fields, fieldLines(next));
}

/** The outcomes of a lane from an index on, in words. */
export function inWords(title, outcomes) {
  const passed = outcomes.filter((one) => one.admitted);
  const waited = passed.filter((one) => one.leaves > one.at).length;
  const waits = waited ? `, ${waited} after a wait` : '';
  return outcomes.length === 1
    ? `${title}: ${passed.length ? `passes${waited ? ' after a wait' : ''}` : 'refused'}`
    : `${title}: ${passed.length} of ${outcomes.length} pass${waits}`;
}
