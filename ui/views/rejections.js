// The live tail of rejections: a sample that the gateway bounds. A screen reader hears a summary, not each row.

import { part } from '../access.js';
import { TAIL } from '../series.js';
import { clock, count, fill, h, link, perSecond, say, span, table } from '../dom.js';
import { GROUPS, rejectedClients } from './clients.js';
import { keyLink } from './keys.js';

/** Milliseconds between two summaries for a screen reader. */
const PAUSE = 10000;
const ROWS = 100;
/** Clients of each group. */
const CLIENTS = 5;
/** Milliseconds between two drawings, a little less than between two events of counters. */
const DRAWN = 900;

export default function rejections({ series, query }) {
  const rows = h('div', { role: 'log', 'aria-live': 'off', 'aria-label': 'Rejected requests' });
  const summary = h('p.small.quiet');
  const announced = h('p.hidden', { 'aria-live': 'polite' });
  const filter = h('input', { type: 'search', placeholder: 'client, limit, route, key, user agent, outcome', oninput: draw, value: '' });
  const chosen = h('p.small', { hidden: true });
  const clients = rejectedClients({
    rows: CLIENTS,
    entry: (group, name, title) => h('button.link', {
      type: 'button', title: name, 'aria-label': `Show only ${title} ${name || 'none'}`, onclick: () => choose(group, name, title),
    }, name || 'none'),
  });
  /** The group and the name of the clients whose rejections are shown; null for all. */
  let only = null;
  let paused = null;
  let drawn = 0;
  let isBehind = false;
  let spoken = Date.now();
  let before = series.tailed;
  const pause = h('button', {
    type: 'button',
    onclick() {
      paused = paused ? null : [...series.rejections];
      say(pause, paused ? 'Go on' : 'Pause');
      draw();
    },
  }, 'Pause');

  function choose(group, name, title) {
    only = group === null ? null : { group, name };
    chosen.hidden = only === null;
    fill(chosen, only && [`Only clients of ${title} `, h('b', {}, name || 'none'), '. ',
      h('button', { type: 'button', onclick: () => choose(null) }, 'Show all')]);
    draw();
  }

  function draw() {
    drawn = Date.now();
    isBehind = false;
    const wanted = filter.value.trim().toLowerCase();
    const isChosen = (row) => !only || row.groups?.[only.group] === only.name;
    const text = (row) => [row.client, row.limit, row.route, row.key, ...row.key_values, row.groups?.user_agent, row.outcome, row.status, row.reason].join(' ').toLowerCase();
    const shown = (paused ?? series.rejections).filter((row) => isChosen(row) && (!wanted || text(row).includes(wanted))).slice(0, ROWS);
    fill(rows, table('Rejected requests, the latest first', [
      { label: 'Time' }, { label: 'Client' }, { label: 'Limit' }, { label: 'Route', wide: true }, { label: 'Key', wide: true }, { label: 'Status', number: true },
      { label: 'Reason', wide: true },
    ], shown.map((row) => [clock(row.at), row.client ? link(`keys?value=${part(row.client)}`, h('code', {}, row.client)) : '–',
      row.limit ? link(`limit/${part(row.limit)}`, row.limit) : '–', row.route ?? '–',
      row.key && row.limit ? keyLink(row.limit, row, { ...row, key_values_hidden: !row.key_values.length }) : '–', String(row.status || '–'),
      [row.outcome, row.retry_after ? `, again in ${span(row.retry_after)}` : '', row.reason ? `: ${row.reason}` : '']]),
    wanted || only ? 'None of the rejections fits.' : 'None since this page was opened.', 'line'));
  }

  function tell() {
    say(summary, `${perSecond(series.now.rates?.rejected ?? 0)} rejections a second. The gateway sends at most 64 a second of them, the first ones of each quarter; `
      + `this page keeps ${TAIL}.`
      + (series.dropped ? ` ${count(series.dropped)} events were lost, since this browser was too slow.` : ''));
    if (Date.now() - spoken < PAUSE || series.tailed === before) return;
    const limits = new Map();
    for (const row of series.rejections.slice(0, series.tailed - before)) limits.set(row.limit ?? row.outcome, (limits.get(row.limit ?? row.outcome) ?? 0) + 1);
    const [most] = [...limits].sort((a, b) => b[1] - a[1]);
    say(announced, `${count(series.tailed - before)} rejections shown in the last ${span((Date.now() - spoken) / 1000)}, most of them by ${most[0]}.`);
    spoken = Date.now();
    before = series.tailed;
  }

  for (const [, group, title] of GROUPS) if (query.has(group)) choose(group, query.get(group), title.toLowerCase());
  return {
    title: 'Rejections',
    node: [h('div.head', {}, h('h1', {}, 'Rejections, live'), pause),
      // Above the lists: the field must not move under who types there when they come.
      h('form.above', { role: 'search', onsubmit: (event) => event.preventDefault() }, h('label', {}, 'Show only', filter)),
      clients.node,
      h('section.card', { 'aria-label': 'Rejections' }, chosen, summary, announced, rows)],
    close: clients.close,
    update(name) {
      if (name === 'all' || name === 'counters') clients.refresh();
      if (name === 'all' || name === 'counters') tell();
      if (name === 'rejections') isBehind = true;
      // Rows do not move under the pointer, and at most once a second.
      const isHeld = paused || rows.matches(':hover') || rows.querySelector(':focus-visible') || Date.now() - drawn < DRAWN;
      if (name === 'all' || (isBehind && !isHeld)) draw();
    },
  };
}
