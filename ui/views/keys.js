// Keys: type a value and see its status under every limit; or one key of one limit by its hash. Clear, ban and grant with the token.

import { change, mayAct, part, read, whyReadOnly } from '../access.js';
import { announce, clock, count, failed, fill, h, link, plural, span, table } from '../dom.js';

/** Limits that are shown whole, used or not. */
const FEW = 8;

export default function keys({ series, query }) {
  const found = h('div', { tabindex: '-1', role: 'region', 'aria-label': 'Status' });
  const field = h('textarea', { rows: 1, name: 'value', spellcheck: 'false', autocomplete: 'off', placeholder: '203.0.113.7' }, query.getAll('value').join('\n'));
  const limit = query.get('limit');
  const hash = query.get('key');
  let busy = 0;

  /** Looks again after an action, whose button is gone then, and takes its focus over. */
  async function again() {
    await look();
    found.focus({ preventScroll: true });
  }

  function showOne(page, path) {
    fill(found, status(series, page, path, again));
    announce(`Limit ${page.limit}: ${verdictOf(series, page)}`);
  }

  async function look() {
    const mine = ++busy;
    fill(found, h('p.quiet', {}, 'Looking.'));
    announce('');
    try {
      if (hash && limit) {
        const page = await read(`limits/${part(limit)}/keys/${part(hash)}`);
        if (mine === busy) showOne(page, `limits/${part(limit)}/keys/${part(hash)}`);
        return;
      }
      const values = query.getAll('value');
      const asked = values.map((value) => `value=${part(value)}`).join('&');
      if (limit) {
        const page = await read(`limits/${part(limit)}/keys?${asked}`);
        if (mine === busy) showOne(page, `limits/${part(limit)}/keys?${asked}`);
        return;
      }
      const page = await read(`keys?${asked}`);
      if (mine !== busy) return;
      const all = [...page.limits, ...page.global];
      const isShown = (one) => all.length <= FEW || !one.admits || one.ban_level > 0 || one.exempt || one.in_flight || one.rates.some((rate) => rate.used > 0);
      const unused = all.filter((one) => !isShown(one));
      const pathOf = (one) => `limits/${part(one.limit)}/keys${page.global.includes(one) ? '' : `?${asked}`}`;
      const value = values.length > 1 ? 'these values' : 'this value';
      const verdict = verdictOfAll(page, value);
      const further = page.others.filter((one) => one.further_parts);
      announce(verdict.text);
      fill(found,
        h('p', { class: `verdict ${verdict.tone}` }, verdict.text),
        page.client_rules.map((rule) => h('p', {}, capital(clientRule(rule)), '.')),
        further.length > 0 && h('p', {}, `${plural(further.length, 'limit')} with further parts in the key cannot be judged by ${value} alone and may reject the request: `,
          further.slice(0, FEW).map((one, at) => [at > 0 && ', ', link(`limit/${part(one.limit)}`, one.limit)]),
          further.length > FEW && ` and ${count(further.length - FEW)} more`, '. What they reject is among the ', link('rejections', 'live rejections'), '.'),
        all.filter(isShown).sort((a, b) => a.admits - b.admits).map((one) => status(series, one, pathOf(one), again)),
        page.omitted > 0 && h('p.quiet', {}, `${count(page.omitted)} more limits were not asked.`),
        unused.length > 0 && h('details.card', {}, h('summary', {}, `${plural(unused.length, 'limit')} counted nothing for this value`),
          table('Limits without a count', [{ label: 'Limit' }, { label: 'Rates' }], unused.map((one) => [link(page.global.includes(one) ? `limit/${part(one.limit)}` : `keys?limit=${part(one.limit)}&${asked}`, one.limit),
            one.rates.map((rate) => rate.rate).join(', ')]))),
        page.others.length > 0 && h('details.card', {}, h('summary', {}, `${plural(page.others.length, 'limit')} cannot count by this value`),
          table('Other limits', [{ label: 'Limit' }, { label: 'Reason' }], page.others.map((one) => [link(`limit/${part(one.limit)}`, one.limit), one.why]))));
    } catch (error) {
      if (mine === busy) fill(found, failed(error));
    }
  }

  if (hash || query.has('value')) look();
  return {
    title: 'Keys',
    node: [h('h1', {}, 'Keys'),
      h('section.card', { 'aria-label': 'Look up' }, h('form', {
        role: 'search',
        onsubmit(event) {
          event.preventDefault();
          const values = field.value.split('\n').map((line) => line.trim()).filter(Boolean);
          const next = `#/keys?${values.map((value) => `value=${part(value)}`).join('&')}`;
          if (!values.length) field.focus();
          else if (location.hash === next) look();
          else location.hash = next;
        },
      }, h('label', {}, 'A value that limits count by: an address, a number, a user. A key of several parts takes a line for each, in the order of ',
        'the limit\'s key.', field),
      h('div.row', {}, h('button.main', { type: 'submit' }, 'Look up')))), found],
  };
}

/** The values of a key in a line; an empty one is seen too. */
const written = (values) => values.map((value) => value || '""').join(', ');

/** The values of a key as a person reads them, by the form in which the page has them; null where the gateway shows none. */
export function valuesOf(key, form) {
  if (form.key_values_hidden) return null;
  if (!key.key_values) return h('span.quiet', {}, 'unknown until its next request');
  return key.key_values.length ? h('span', {}, h('b', {}, written(key.key_values)), form.key_values_masked && ' (masked)') : 'all requests';
}

/** A key with its values, as a link to its status. */
export const keyLink = (limit, key, form) => {
  const values = valuesOf(key, form);
  return link(`keys?limit=${part(limit)}&key=${key.key}`, values, values && ' ', h(values ? 'code.small' : 'code', {}, key.key));
};

/** What the next request of a key gets, in few words. */
const NEXT = {
  admitted: 'admits', exempt: 'admits: exempt', marked: 'marks', 'shadow-rejected': 'admits: in shadow', challenged: 'challenges',
  rejected: 'rejects', 'store-unavailable': 'rejects: no store', banned: 'rejects: banned', blocked: 'rejects: blocked',
};

/** What a limit does with the next request of a key, in a table. */
export function nextOf(key) {
  if (key.next === 'banned') return `banned for ${span(key.ban.left)} more`;
  return NEXT[key.next] + (key.ban ? ', though banned' : '');
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** What a list or a temporary rule does with a client. */
function clientRule(rule) {
  const what = rule.rule ? `the temporary rule ${rule.rule} for ${rule.target}` : `the list ${rule.list}`;
  const does = rule.client === 'blocked' ? 'blocks the client' : 'exempts the client from the limits';
  return `${what} ${does}${rule.until ? ` until ${clock(rule.until)}` : ''}${rule.routes ? ` on the ${rule.routes.length === 1 ? 'route' : 'routes'} ${rule.routes.join(', ')}` : ''}`;
}

/** The rule that decides about a client on all routes; undefined where none does. */
const ruleOfAll = (page) => page.client_rules.find((rule) => rule.routes === null);

/** What all limits that were asked would do with the next request, and its color. */
function verdictOfAll(page, value) {
  const rule = ruleOfAll(page);
  if (rule?.client === 'blocked') return { tone: 'bad', text: 'The next request would be rejected with 403.' };
  if (rule) return { tone: 'good', text: 'No limit applies to the next request.' };
  const all = [...page.limits, ...page.global];
  const rejecting = all.filter((one) => !one.admits).length;
  if (rejecting) return { tone: 'bad', text: `${rejecting} of ${plural(all.length, 'limit')} would reject the next request.` };
  const isOpen = page.omitted > 0 || page.client_rules.length > 0 || page.others.some((one) => one.further_parts);
  const own = page.limits.length;
  const shared = page.global.length;
  const text = own ? wouldNot(own, `counts by ${value} alone`, `count by ${value} alone`) : `No limit counts by ${value} alone.`;
  return {
    tone: isOpen || !all.length ? 'warn' : 'good',
    text: shared ? `${text} ${wouldNot(shared, 'all requests share', 'all requests share')}` : text,
  };
}

/** Says that none of some limits would reject the next request. */
const wouldNot = (number, one, several) => (number === 1
  ? `The one limit that ${one} would not reject the next request.`
  : `None of the ${count(number)} limits that ${several} would reject the next request.`);

/** What one limit would do with the next request of a key. */
function verdictOf(series, page) {
  const ban = page.ban ? `; its ban lasts ${span(page.ban.left)} more, and does not apply now` : '';
  const rule = ruleOfAll(page);
  if (rule) return rule.client === 'blocked' ? `rejects with 403: ${clientRule(rule)}` : `admits: ${clientRule(rule)}${ban}`;
  switch (page.next) {
    case 'blocked': return 'rejects: a row of its overrides or a temporary rule blocks the key';
    case 'banned': return `rejects: banned for ${span(page.ban.left)} more`;
    case 'rejected': return 'rejects: a rate has no room';
    case 'store-unavailable': return 'rejects with 503: the store cannot be reached, and on_store_failure is closed';
    case 'challenged': return 'gives browsers a challenge and rejects others: a rate has no room';
    case 'exempt': return `admits: a row of its overrides or a temporary rule exempts the key${ban}`;
    case 'admitted': return `admits${ban}`;
    case 'marked': return 'a rate has no room, and its action is mark';
    default: return series.limit(page.limit)?.action === 'shadow' ? `a rate has no room, and its action is shadow${ban}` : `a rate has no room, and the limit is in shadow for this key${ban}`;
  }
}

/** The color of a verdict: of a request that is rejected, of one that is admitted, and of one that is admitted without room. */
const toneOf = (page) => (!page.admits ? 'bad' : ['admitted', 'exempt'].includes(page.next) ? 'good' : 'warn');

/** The reason why a key cannot be banned by hand; undefined where it can. */
function whyNoBan(limit, path) {
  if (limit?.key === 'global') return 'A ban would reject all requests of this limit: scale it on the page Rules, or set a rule by the command line with --force.';
  if (limit?.ban === null && !path.includes('?')) return 'This limit has no ban in the configuration, so look the key up by its value.';
  return undefined;
}

/** One key at one limit, with its actions. */
function status(series, page, path, again) {
  const said = h('div', { role: 'status' });
  const limit = series.limit(page.limit);
  const act = (label, question, method, body, kind = '', why = mayAct() ? '' : whyReadOnly()) => h(`button${kind}`, {
    type: 'button', disabled: why !== '', title: why,
    async onclick() {
      const given = await ask(question, label, typeof body === 'function');
      if (!given) return;
      try {
        await change(path, method, typeof body === 'function' ? body(given) : body);
        again();
      } catch (error) {
        fill(said, failed(error));
      }
    },
  }, label);
  const verdict = verdictOf(series, page);
  return h('section.card', { 'aria-label': `Limit ${page.limit}` },
    h('div.head', {}, h('h2', {}, link(`limit/${part(page.limit)}`, page.limit), ' ', h('span', { class: toneOf(page) }, verdict)),
      h('span.small.quiet', {}, series.limit(page.limit)?.key, ' · ', page.key_values && [written(page.key_values) || 'all requests', ' · '], h('code', {}, page.key))),
    table(`Rates of ${page.limit}`, [
      { label: 'Rate' }, { label: 'Used', number: true }, { label: 'Left', number: true }, { label: 'More in', number: true },
      { label: 'All free in', number: true },
    ], page.rates.map((rate) => [rate.rate, `${count(rate.used)} of ${count(rate.limit)}`, count(rate.remaining), span(rate.next), span(rate.reset)])),
    h('p.small.quiet', {}, `Decided by the ${page.decided_by === 'store' ? 'store' : 'gateway itself'} at ${clock(page.at)}.`,
      page.in_overflow && ' The key shares counters, so the use may be of other keys.',
      page.ban && ` ${page.ban.rule ? `Banned by rule ${page.ban.rule}` : `Ban ${page.ban.level} in a row`}, until ${clock(page.ban.until)}.`,
      page.in_flight !== null && ` ${plural(page.in_flight, 'request')} in flight.`),
    h('div.row', { role: 'group', 'aria-label': `Actions on limit ${page.limit}` },
      act('Clear', `Clear the counters and the ban of this key at limit ${page.limit}?`, 'DELETE'),
      act('Grant', `Give this key all of limit ${page.limit} again? A ban stays.`, 'PUT', { used: 0 }),
      act('Ban', `Ban this key at limit ${page.limit}?`, 'PUT', (given) => ({ ban: given }), '.danger',
        mayAct() ? whyNoBan(limit, path) : undefined)), said);
}

/** A duration as the gateway reads it, in a form. */
export const DURATION = '([0-9]+(ms|s|m|h|d))+';

/** Asks before an action. What was given: true, with `isTimed` a duration and a reason; false where the answer is no. */
export function ask(question, label, isTimed = false) {
  return new Promise((done) => {
    const length = h('input', { name: 'for', value: '1h', required: true, pattern: DURATION });
    const reason = h('input', { name: 'reason', maxlength: '200', autocomplete: 'off' });
    const given = () => (isTimed ? { for: length.value, reason: reason.value.trim() } : true);
    const dialog = h('dialog', { 'aria-label': label, 'aria-describedby': 'question', onclose() { dialog.remove(); done(dialog.returnValue === 'yes' && given()); } },
      h('form', { method: 'dialog', role: 'none' }, h('p', { id: 'question' }, question),
        isTimed && [h('label', {}, 'For how long, such as 30m or 1h30m', length), h('label', {}, 'Why', reason)],
        h('div.row', {}, h('button.main', { value: 'yes' }, label), h('button', { value: 'no', formnovalidate: true }, 'Cancel'))));
    document.body.append(dialog);
    dialog.showModal();
  });
}
