// Temporary rules: which are in force, until when, and why. With the token add one, or remove one before its end.

import { change, mayAct, part, read, whyReadOnly } from '../access.js';
import { announce, card, count, failed, fill, h, plural, renew, span, table, when } from '../dom.js';
import { DURATION, ask } from './keys.js';

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
    const rule = await askForRule(series.state.store !== null, series.overview.limits.map((limit) => limit.name));
    if (!rule) return;
    fill(said);
    announce(`The rule ${wordsOf(rule)}.`);
    await look();
  }

  look();
  return {
    title: 'Rules',
    node: [h('h1', {}, 'Temporary rules'),
      h('p', {}, 'They block clients or keys, exempt them from the limits, or multiply the rates of a limit, until their end. What is to last belongs into the configuration.'),
      card('In force', list, said,
        h('div.row', {}, h('button.main', { type: 'button', disabled: !mayAct(), title: mayAct() ? '' : whyReadOnly(), onclick: add }, 'Add a rule')))],
    update(name) {
      const { revision } = series.state.rules;
      if (name !== 'all' && name !== 'state') return;
      if (shown !== null && shown !== revision) look();
      shown = revision;
    },
  };
}

/** Asks for a rule and sets it. The rule; null where none was set. */
function askForRule(isShared, limits) {
  return new Promise((done) => {
    const action = h('select', { name: 'action' }, h('option', { value: 'block' }, 'Block'), h('option', { value: 'exempt' }, 'Exempt from the limits'),
      limits.length > 0 && h('option', { value: 'scale' }, 'Multiply the rates of a limit'));
    const target = h('input', { name: 'target', required: true, spellcheck: 'false', autocomplete: 'off', placeholder: '203.0.113.0/24' });
    const whom = h('label', {}, 'An address, a block of addresses, or a network such as AS64496', target);
    const limit = h('select', { name: 'limit' }, limits.map((name) => h('option', { value: name }, name)));
    const factor = h('input', { name: 'factor', type: 'number', min: '0.01', max: '100', step: '0.01', value: '0.5' });
    const rates = h('div.row', { hidden: true }, h('label', {}, 'Limit', limit), h('label.narrow', {}, 'Factor', factor));
    action.addEventListener('input', () => {
      rates.hidden = action.value !== 'scale';
      whom.hidden = target.disabled = action.value === 'scale';
    });
    const length = h('input', { name: 'for', value: '30m', required: true, pattern: DURATION });
    const reason = h('input', { name: 'reason', maxlength: '200', autocomplete: 'off' });
    const here = h('input', { name: 'here', type: 'checkbox' });
    const force = h('input', { name: 'force', type: 'checkbox' });
    const forced = h('label.check', { hidden: true }, force, 'Set it nevertheless');
    const said = h('div');
    let set = null;
    const dialog = h('dialog', { 'aria-label': 'Add a rule', onclose() { dialog.remove(); done(set); } },
      h('form', {
        role: 'none',
        async onsubmit(event) {
          event.preventDefault();
          try {
            const order = {
              action: action.value, for: length.value.trim(), reason: reason.value,
              ...(action.value === 'scale' ? { limit: limit.value, factor: Number(factor.value) } : { target: target.value.trim() }),
              scope: here.checked ? 'here' : 'fleet', force: force.checked,
            };
            set = (await change('rules', 'POST', order)).rule;
            dialog.close();
          } catch (error) {
            fill(said, failed(error));
            forced.hidden = !error.message.includes('--force');
          }
        },
      }, h('label', {}, 'What it does', action), whom, rates,
      h('label', {}, 'For how long, such as 30m or 1h30m; 30d at most', length), h('label', {}, 'Why', reason),
      isShared && h('label.check', {}, here, 'On this gateway alone'), said, forced,
      h('div.row', {}, h('button.main', { type: 'submit' }, 'Set'), h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The line of the overview; null where no rule is in force. */
export function rulesInForce({ count: number, next_end: next }) {
  return number > 0 && h('p.rules', {}, h('a', { href: '#/rules' }, `${plural(number, 'temporary rule')} in force`), ', the next one ends ', when(next), '.');
}
