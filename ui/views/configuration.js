// The configuration in force: the last reload with its changes, the routes, and the files as they are written, without secrets.

import { change, read } from '../access.js';
import { clock, failed, fill, h, table } from '../dom.js';
import { changes } from './overview.js';

/** The limits of a route; those that reject nothing, or nothing for some keys, are named so. */
const limits = (route) => route.limits.map((name) => {
  if (route.shadow.includes(name)) return `${name} (in shadow)`;
  const share = route.enforced?.[name];
  return share ? `${name} (enforced for ${share} of keys)` : name;
}).join(', ');

export default function configuration({ series }) {
  const last = h('div');
  const former = h('div');
  const routes = h('div', {}, h('p.quiet', {}, 'Reading.'));
  const files = h('div');
  const said = h('div', { role: 'status' });
  let generation = null;
  const reload = h('button', {
    type: 'button',
    async onclick() {
      reload.disabled = true;
      try {
        const done = await change('reload', 'POST');
        fill(said, h('p.good', {}, done.changes.length ? `Reloaded: ${done.changes.length} changes.` : 'Reloaded: nothing changed.'));
      } catch (error) {
        fill(said, failed(error));
      }
      reload.disabled = false;
    },
  }, 'Reload');

  async function reread() {
    try {
      const [config, all] = [await read('config'), await read('routes')];
      fill(files, config.files.map(({ file, text }) => [h('h3', {}, file), h('pre', { tabindex: '0', role: 'region', 'aria-label': file }, text)]));
      fill(routes, table('Routes, in the order of the file', [{ label: 'Route' }, { label: 'Takes' }, { label: 'Limits' }, { label: 'Then' }],
        all.routes.map((route) => [route.name, route.takes.join(', '), limits(route) || '–', route.action])));
    } catch (error) {
      fill(routes, failed(error));
    }
  }

  async function rereadReloads() {
    try {
      const { reloads } = await read('reloads');
      fill(former, table('The last reloads, the latest first', [{ label: 'Time' }, { label: 'By' }, { label: 'Result' }, { label: 'Changes' }],
        reloads.map((one) => [clock(one.at), one.by, h('span', { class: one.result === 'ok' ? 'good' : 'bad' }, one.result === 'ok' ? 'accepted' : 'refused'), told(one)]),
        'None since the start.'));
    } catch (error) {
      fill(former, failed(error));
    }
  }

  return {
    title: 'Configuration',
    node: [h('h1', {}, 'Configuration in force'), h('div.grid', {},
      h('section.card.wide', { 'aria-label': 'Last reload' }, h('div.head', {}, h('h2', {}, 'Last reload'), reload), said, last),
      h('section.card.wide', { 'aria-label': 'The last reloads' }, h('h2', {}, 'The last reloads'), former),
      h('section.card.wide', { 'aria-label': 'Routes' }, h('h2', {}, 'Routes'), routes),
      h('section.card.wide', { 'aria-label': 'Files' }, h('h2', {}, 'The files as written, without secrets'), files))],
    update(name) {
      if (name !== 'all' && name !== 'overview') return;
      const { configuration: facts } = series.overview;
      fill(last, changes(facts));
      rereadReloads();
      if (generation !== facts.generation) reread();
      generation = facts.generation;
    },
  };
}

/** What a reload changed, or why it was refused. */
function told({ error, changes: all, changes_omitted: omitted }) {
  if (error) return h('div.bad.lines', {}, error);
  return all.length ? h('ul.plain.small', {}, all.map((one) => h('li', {}, one)), omitted > 0 && h('li', {}, `and ${omitted} more`)) : 'nothing changed';
}
