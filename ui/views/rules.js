// Temporary rules: which are in force, until when, and why. With the token add one, remove one before its end, lift bans, clear a limit.

import { change, mayAct, part, read, whyReadOnly } from '../access.js';
import { announce, card, count, failed, fill, h, plural, renew, span, table, when } from '../dom.js';
import { ask } from './keys.js';
import { askForRule } from './rule-dialog.js';
import { clearCard, unbanCard } from './unban.js';

/** Rules in the table; the command line lists all. */
const ROWS = 200;

const DOES = { block: 'blocks', exempt: 'exempts', ban: 'bans', scale: 'multiplies the rates of' };

/** What a rule does, in words. */
const wordsOf = ({ action, object, factor }) => `${DOES[action] ?? action} ${object}${factor ? ` by ${factor}` : ''}`;

export default function rules({ series }) {
  const list = h('div', { tabindex: '-1', role: 'region', 'aria-label': 'List of rules' });
  const said = h('div', { role: 'status' });
  let shown = null;
  let busy = 0;

  async function look() {
    const mine = ++busy;
    try {
      const page = await read('rules');
      if (mine === busy) show(page);
    } catch (error) {
      if (mine === busy) fill(list, failed(error));
    }
  }

  function show(page) {
    renew(list, table('Temporary rules in force', [
      { label: 'Rule' }, { label: 'Ends' }, { label: 'Requests', number: true }, { label: 'Reason' }, { label: 'Set by' }, { label: 'Action' },
    ], page.rules.slice(0, ROWS).map((rule) => [
      h('span', { class: rule.action === 'exempt' ? 'warn' : 'bad' }, wordsOf(rule)),
      when(rule.until), count(rule.hits), rule.reason || '–',
      `${rule.by}${rule.scope === 'here' && page.shared ? ', on this gateway alone' : ''}`,
      h('button', {
        type: 'button', disabled: !mayAct(), title: mayAct() ? '' : whyReadOnly(), 'aria-label': `Remove the rule that ${wordsOf(rule)}`,
        onclick: () => remove(rule),
      }, 'Remove'),
    ]), 'No temporary rule is in force.'),
    page.file_fault && h('p.error', {}, `Rules are lost, or end with the process: ${page.file_fault}.`),
    page.rules.length > ROWS && h('p.quiet', {}, `and ${count(page.rules.length - ROWS)} more: sluicegate rules`),
    h('p.small.quiet', {}, 'Requests are those of this gateway. ', page.shared ? 'Gateways that share the store have the same rules. ' : '',
      page.kept ? 'The rules outlive a restart.' : `The rules end with the process: ${page.why_not_kept}.`,
      page.key_values_hidden && ` Keys are shown by their hashes: ${page.key_values_hidden}.`));
  }

  async function remove(rule) {
    if (!await ask(`Remove the rule that ${wordsOf(rule)}? It would end in ${span(rule.left)}.`, 'Remove')) return;
    try {
      await change(`rules/${part(rule.id)}`, 'DELETE');
      fill(said);
      announce(`${rule.object}: the rule is removed.`);
    } catch (error) {
      fill(said, failed(error));
    }
    await look();
    list.focus({ preventScroll: true });
  }

  async function add() {
    const rule = await askForRule(series.state.store !== null, series.overview.limits);
    if (!rule) return;
    fill(said);
    announce(`The rule ${wordsOf(rule)}.`);
    await look();
  }

  const names = series.overview.limits.map((limit) => limit.name);
  look();
  return {
    title: 'Rules',
    node: [h('h1', {}, 'Temporary rules'),
      h('p', {}, 'They block clients or keys, exempt them from the limits, or multiply the rates of a limit, until their end. What is to last belongs into the configuration.'),
      card('In force', list, said,
        h('div.row', {}, h('button.main', { type: 'button', disabled: !mayAct(), title: mayAct() ? '' : whyReadOnly(), onclick: add }, 'Add a rule'))),
      h('div.grid', {}, unbanCard(names), clearCard(names))],
    // A reload may add limits. A stream that begins anew changes none, and what was typed here stays.
    isOutdated: () => JSON.stringify(series.overview.limits.map((limit) => limit.name)) !== JSON.stringify(names),
    update(name) {
      const { revision } = series.state.rules;
      if (name !== 'all' && name !== 'state') return;
      if (shown !== null && shown !== revision) look();
      shown = revision;
    },
  };
}

/** The line of the overview; null where no rule is in force. */
export function rulesInForce({ count: number, next_end: next }) {
  return number > 0 && h('p.rules', {}, h('a', { href: '#/rules' }, `${plural(number, 'temporary rule')} in force`), ', the next one ends ', when(next), '.');
}
