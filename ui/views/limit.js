// One limit: its rates beside those in shadow, the load of its table, the keys nearest to it, its bans, and the slider over live usage.

import { change, mayAct, part, read } from '../access.js';
import { rateChart } from '../chart.js';
import { rangeButtons, shownRange } from '../history.js';
import { card, clock, count, facts, failed, fill, h, link, percent, plural, renew, span, table } from '../dom.js';
import { ask, keyLink, nextOf, valuesOf } from './keys.js';
import { usage } from './usage.js';

/** A bar beside a number that says the same. */
const gauge = (part, high) => h('meter', { min: 0, max: 1, low: 0.8, high, optimum: 0, value: Math.min(1, part), 'aria-hidden': 'true' });

/** The rates of the configuration, and the factor of the temporary rule that multiplies them. */
export const scaledText = ({ factor, rates, until }) => `${rates.join(', ')} × ${factor} until ${clock(until)}`;

/** The keys are read again at most so often, and only once something has changed: a read walks the whole table. */
const PAUSE = 10000;

export default function limit({ series, rest: [name] }) {
  const known = series.limit(name);
  if (!known) {
    return {
      title: name,
      node: [h('h1', {}, `There is no limit ${name}`), h('p', {}, link('limits', 'All limits'))],
      isOutdated: () => series.limit(name) !== undefined,
    };
  }
  const rules = JSON.stringify(known);
  const base = `limits/${part(name)}`;
  const chart = rateChart(`Limit ${name}`, { admitted: 'Admitted', rejected: 'Rejected', shadow: 'Would be rejected (shadow)' });
  const sums = h('div');
  const load = h('div');
  const conditions = h('div');
  const top = h('div', {}, h('p.quiet', {}, 'Reading the table.'));
  const bans = h('div');
  // A temporary rule bans keys of any limit.
  const banned = card('Bans', bans);
  banned.hidden = known.ban === null;
  const slider = usage(base);
  const refresh = h('button', { type: 'button', onclick: reread }, 'Read again');
  let readAt = 0;
  // The first read may come before what happened a moment ago is in the sample.
  let hasNews = true;
  let closed = false;
  let advice = null;
  let refused = 0;

  async function reread() {
    readAt = Date.now();
    refresh.disabled = true;
    try {
      const page = await read(`${base}/top?n=20`);
      const bansPage = await read(`${base}/bans?n=50`);
      if (closed) return;
      ({ advice, refused } = page.overflow);
      showTop(page);
      showBans(bansPage);
      showLoad();
    } catch (error) {
      if (!closed) fill(top, failed(error));
    }
    refresh.disabled = false;
    slider.refresh();
  }

  function showTop(page) {
    renew(top, h('p.small.quiet', {}, `${count(page.keys)} active keys at ${clock(page.at)}. A key is a keyed hash; the Keys view finds the one of a value.`,
      page.key_values_hidden && ` Its value is not shown: ${page.key_values_hidden}.`),
      table('The keys with the highest use', [{ label: 'Key' }, { label: 'Used', number: true }, { label: 'Next request' }, { label: 'Left' }, { label: 'All free in', number: true }],
        page.top.map((key) => [keyLink(name, key, page),
          h('span', { class: key.refused ? 'bad' : '' }, gauge(key.used, 0.999), ` ${key.shared ? 'at most ' : ''}${percent(key.used)}`),
          h('span', { class: key.refused ? 'bad' : '' }, nextOf(key)), key.rates.map((rate) => `${rate.remaining} of ${rate.rate}`).join(', '), span(Math.max(...key.rates.map((rate) => rate.reset)))]),
        'No key is active.'));
  }

  function showBans(page) {
    banned.hidden = known.ban === null && page.keys.length === 0;
    renew(bans, table('Banned keys', [{ label: 'Key' }, { label: 'Ends in', number: true }, { label: 'Level', number: true }, { label: 'Action' }],
      page.keys.map((key) => [keyLink(name, key, page), key.until ? span(key.left) : 'ended', key.rule ? `rule ${key.rule}` : String(key.level),
        h('button.danger', {
          type: 'button', disabled: !mayAct(), 'aria-label': `Lift the ban of ${key.key}`,
          async onclick() {
            const values = valuesOf(key, page);
            if (!await ask(`Lift the ban of key ${key.key}${key.key_values ? ` (${values.textContent ?? values})` : ''}? Its counters are cleared too${key.rule ? `, and rule ${key.rule} is removed` : ''}.`, 'Lift')) return;
            await change(`${base}/bans/${key.key}`, 'DELETE').catch((error) => bans.prepend(failed(error)));
            reread();
          },
        }, 'Lift')]), 'No key is banned.'),
    page.keys.length ? h('div.row', {}, h('button.danger', { type: 'button', disabled: !mayAct(), onclick: liftAll }, 'Lift all bans')) : null,
    page.ban?.not_kept ? h('p.error', {}, `${count(page.ban.not_kept)} bans could not be kept: raise the limit's capacity.`) : null);
  }

  /** Asks with the number of bans that would end. */
  async function liftAll() {
    try {
      const { bans: found, fleet } = await change(`bans?limit=${part(name)}&dry_run=true`, 'DELETE');
      const others = fleet ? ' Bans of this limit at the other gateways of the store end too.' : '';
      if (!await ask(`Lift ${plural(found, 'ban')} of limit ${name}? The counters of these keys are cleared too.${others}`, 'Lift all')) return;
      await change(`bans?limit=${part(name)}`, 'DELETE');
    } catch (error) {
      bans.prepend(failed(error));
    }
    reread();
  }

  function showLoad() {
    const sampled = series.limits.get(name)?.load;
    const share = sampled ? sampled.keys / known.capacity : 0;
    renew(load, facts([
      ['Active keys', sampled ? [gauge(share, 0.95), ` ${count(sampled.keys)} of ${count(known.capacity)} (${percent(share)})`] : 'not sampled yet'],
      ['In reserve', sampled?.reserved === undefined ? null : `${plural(sampled.reserved, 'unit')} of requests in flight`],
      ['Overflow', sampled?.overflow ? h('span.bad', {}, 'new keys share counters') : 'none'],
      ['Rejected in overflow', refused ? count(refused) : null],
      ['Capacity to set', advice ? h('b.bad', {}, count(advice)) : null],
    ]));
  }

  /** A limit may have the name of a property that every object has. */
  const ownConditions = () => (Object.hasOwn(series.state.conditions, name) ? series.state.conditions[name] : null);

  function showConditions() {
    const said = ownConditions();
    if (said) {
      renew(conditions, table('Conditions', [{ label: 'Applies while' }, { label: 'Now' }, { label: 'Since' }, { label: 'Began', number: true }],
        said.map((one) => [[h('code', {}, one.when), one.tier !== null && ` (tier ${one.tier})`], h('span', { class: one.active ? 'bad' : 'quiet' }, one.active ? 'active' : 'not active'),
          one.since ? clock(one.since) : 'the start', count(one.activated)])));
    }
  }

  function draw() {
    const lately = series.limits.get(name)?.history ?? { admitted: [], rejected: [], shadow: [] };
    chart.update(shownRange() === 'hour' ? series.history.limit(name) : lately, series.history.recent());
  }

  function counters() {
    const row = series.limits.get(name);
    draw();
    showLoad();
    if (row?.counts) {
      const of = (label, enforced, shadow) => [label, count(series.sum(name, enforced)), count(series.sum(name, shadow))];
      renew(sums, table('Since the start', [{ label: 'Since the start' }, { label: 'Enforced', number: true }, { label: 'Shadow', number: true }], [
        of('Admitted', ['admitted'], ['shadow_admitted', 'shadow_rates_admitted']),
        of('Rejected by a rate', ['refused'], ['shadow_refused', 'shadow_rates_refused']),
        ...[['Pages with a challenge', 'challenged'], ['With a solution', 'challenge_passed'], ['Solution failed', 'challenge_failed'],
          ['Rejected by a ban', 'banned'], ['Too many in flight', 'concurrency_refused'], ['Store unavailable', 'store_unavailable'], ['Blocked by a row', 'blocked'],
          ['Exempt', 'unlimited'], ['Delayed', 'delayed'], ['Marked', 'marked'], ['Key missing', 'key_missing'], ['Refunded', 'refunded']]
          .filter(([, counter]) => series.sum(name, [counter])).map(([label, counter]) => [label, count(series.sum(name, [counter])), '–']),
      ]));
    } else fill(sums, h('p.quiet', {}, 'No request has met this limit since the start.'));
    hasNews ||= Boolean(row?.rates);
    if (hasNews && Date.now() - readAt > PAUSE && !document.hidden) {
      hasNews = false;
      reread();
    }
  }

  return {
    title: name,
    // A reload may change every fact of it. A stream that begins anew changes none, and a number that was typed here stays.
    isOutdated: () => JSON.stringify(series.limit(name)) !== rules,
    node: [
      h('p.small', {}, link('limits', '← All limits')),
      h('h1', {}, `Limit ${name}`),
      h('div.grid', {},
        card('Rules', facts([['Rates', [known.rates.join(', '), known.scaled && [' (', h('span.bad', {}, scaledText(known.scaled)), ', ', link('rules', `rule ${known.scaled.rule}`), ')']]], ['Key', h('code', {}, known.key)], ['Algorithm', known.algorithm],
          ['Action', known.action + (known.enforce === '100%' ? '' : `, enforced for ${known.enforce} of keys`)],
          ['Rates in shadow', known.shadow_rates.join(', ')], ['Ban', known.ban && `${span(known.ban)} at first`],
          ['In flight', known.concurrency && `at most ${known.concurrency} of a key`], ['Counts', known.shared ? 'with other gateways' : 'on this gateway']])),
        card('Table', load),
        ownConditions() && card('Conditions', conditions),
        h('section.card.wide', { 'aria-label': 'Rates' }, h('div.head', {}, h('h2', {}, 'Requests, and what shadow would reject'), rangeButtons(draw)), chart.node),
        h('section.card.wide', { 'aria-label': 'Another number' }, h('h2', {}, 'What another number would do'), slider.node),
        h('section.card.wide', { 'aria-label': 'Keys' }, h('div.head', {}, h('h2', {}, 'Keys nearest to the limit'), refresh), top),
        banned, card('Decisions', sums)),
    ],
    update(event) {
      if (event === 'all' || event === 'state') showConditions();
      if (event === 'all') reread();
      if (event === 'overview') hasNews = true;
      if (event === 'all' || event === 'counters') counters();
    },
    close() {
      closed = true;
    },
  };
}
