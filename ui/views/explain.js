// Explains one request: which route takes it and why, which limits apply with which keys. Nothing is counted.

import { part, read } from '../access.js';
import { announce, card, facts, failed, fill, h } from '../dom.js';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'];

export default function explain({ series, query }) {
  const found = h('div');
  const method = h('input', { name: 'method', list: 'methods', value: query.get('method') ?? 'GET', required: true });
  const url = h('input', {
    name: 'url', required: true, value: query.get('url') ?? '', placeholder: 'https://api.example.com/auth/sendOTP or /auth/sendOTP', spellcheck: 'false',
  });
  const client = h('input', { name: 'client', value: query.get('client') ?? '', placeholder: '192.0.2.1', spellcheck: 'false' });
  const listener = h('select', { name: 'listener' });
  const listenerField = h('label.narrow', {}, 'Listener', listener);
  const headers = h('textarea', { name: 'headers', rows: 2, placeholder: 'X-Plan: free', spellcheck: 'false' }, query.getAll('header').join('\n'));

  /** Offers the listeners that have names, where there are several. */
  function offerListeners() {
    const { listeners } = series.overview;
    const named = listeners.filter(({ name }) => name !== null);
    const chosen = listener.value || query.get('listener') || '';
    fill(listener, h('option', { value: '' }, 'any'), named.map(({ name, address }) => h('option', { value: name, title: address }, name)));
    listener.value = named.some(({ name }) => name === chosen) ? chosen : '';
    listenerField.hidden = listeners.length < 2 || !named.length;
  }

  async function look() {
    announce('');
    try {
      const { client: whom, place = [], crawler, removed, path, route, why, list, limits, outcome } = await read(`explain?${query}`.replaceAll('+', '%20'));
      const result = outcome[0].toUpperCase() + outcome.slice(1) + '.';
      announce(result);
      fill(found, card('Result', h('p.verdict', {}, result),
        facts([['Route', route], ['Path', h('code', {}, path)], ['Client', whom], ['Crawler', crawler], ['List', list]]),
      place.length > 0 && h('ul.plain', {}, place.map((line) => h('li', {}, line)))),
      card('Limits', limits.length ? h('ul.plain', {}, limits.map((line) => h('li', {}, line))) : h('p.quiet', {}, 'None apply.')),
      card('Why this route', h('ul.plain', {}, why.map((line) => h('li', {}, line)))),
      removed.length > 0 && card('Fields that are removed first', h('ul.plain', {}, removed.map((line) => h('li', {}, line)))));
    } catch (error) {
      fill(found, failed(error));
    }
  }

  if (query.has('url')) look();
  return {
    title: 'Explain',
    node: [h('h1', {}, 'Explain a request'),
      h('section.card', { 'aria-label': 'Request' }, h('form', {
        role: 'none',
        onsubmit(event) {
          event.preventDefault();
          const lines = headers.value.split('\n').map((line) => line.trim()).filter(Boolean);
          const pairs = [['method', method.value.trim()], ['url', url.value.trim()], ['client', client.value.trim()], ['listener', listener.value], ...lines.map((line) => ['header', line])];
          const next = `#/explain?${pairs.filter(([, value]) => value).map(([name, value]) => `${name}=${part(value)}`).join('&')}`;
          if (location.hash === next) look();
          else location.hash = next;
        },
      }, h('div.row', {}, h('label.narrow', {}, 'Method', method, h('datalist', { id: 'methods' }, METHODS.map((name) => h('option', { value: name })))),
        h('label', {}, 'URL', url), h('label.narrow', {}, 'Client', client), listenerField),
      h('label', {}, 'Header fields, a line each', headers), h('div.row', {}, h('button.main', { type: 'submit' }, 'Explain')))), found],
    update(name) {
      if (name === 'all' || name === 'overview') offerListeners();
    },
  };
}
