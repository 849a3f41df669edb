// The dialog that sets a temporary rule: about clients, a key of a limit, or a limit.

import { change } from '../access.js';
import { failed, fill, h, say } from '../dom.js';
import { DURATION } from './keys.js';

/** What a rule may do: the action of the API, what it is about, and both in words. */
const CHOICES = {
  block: { action: 'block', about: 'clients', words: 'Block clients' },
  'block-key': { action: 'block', about: 'key', words: 'Block a key of a limit' },
  exempt: { action: 'exempt', about: 'clients', words: 'Exempt clients from the limits' },
  'exempt-key': { action: 'exempt', about: 'key', words: 'Exempt a key from its limit' },
  'ban-key': { action: 'ban', about: 'key', words: 'Ban a key of a limit' },
  scale: { action: 'scale', about: 'limit', words: 'Multiply the rates of a limit' },
};

/** The fields that say whom or what a rule is about. `limits` as in an overview event. */
function objectFields(limits) {
  const target = h('input', { name: 'target', spellcheck: 'false', autocomplete: 'off', placeholder: '203.0.113.0/24' });
  const limit = h('select', { name: 'limit', oninput: nameKey }, limits.map(({ name }) => h('option', { value: name }, name)));
  const key = h('textarea', { name: 'key', rows: 1, spellcheck: 'false', autocomplete: 'off' });
  const factor = h('input', { name: 'factor', type: 'number', min: '0.01', max: '100', step: '0.01', value: '0.5' });
  const parts = h('span', {});
  const clients = h('label', {}, 'An address, a block of addresses, or a network such as AS64496', target);
  const factorField = h('label.narrow', {}, 'Factor', factor);
  const limitRow = h('div.row', {}, h('label', {}, 'Limit', limit), factorField);
  const keyField = h('label', {}, parts, key);
  let about = 'clients';

  /** A key that all requests share has no value. */
  const hasValues = () => limits.find(({ name }) => name === limit.value)?.key !== 'global';

  function nameKey() {
    keyField.hidden = about !== 'key' || !hasValues();
    key.required = !keyField.hidden;
    say(parts, `The key, ${limits.find(({ name }) => name === limit.value)?.key}: a line for each part, in this order`);
  }

  return {
    nodes: [clients, limitRow, keyField],
    show(next) {
      about = next;
      clients.hidden = about !== 'clients';
      target.required = !clients.hidden;
      limitRow.hidden = about === 'clients';
      factorField.hidden = about !== 'limit';
      nameKey();
    },
    /** The members of the order that say whom or what. */
    order() {
      const values = key.value.split('\n').map((line) => line.trim()).filter(Boolean);
      if (about === 'clients') return { target: target.value.trim() };
      return about === 'key' ? { limit: limit.value, key: hasValues() ? values : [] } : { limit: limit.value, factor: Number(factor.value) };
    },
  };
}

/** Asks for a rule and sets it. The rule; null where none was set. */
export function askForRule(isShared, limits) {
  return new Promise((done) => {
    const choices = Object.entries(CHOICES).filter(([, { about }]) => about === 'clients' || limits.length > 0);
    const object = objectFields(limits);
    const show = () => object.show(CHOICES[choice.value].about);
    const choice = h('select', { name: 'action', oninput: show }, choices.map(([value, { words }]) => h('option', { value }, words)));
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
              action: CHOICES[choice.value].action, ...object.order(), for: length.value.trim(), reason: reason.value.trim(),
              scope: here.checked ? 'here' : 'fleet', force: force.checked,
            };
            set = (await change('rules', 'POST', order)).rule;
            dialog.close();
          } catch (error) {
            fill(said, failed(error));
            forced.hidden = !error.message.includes('--force');
          }
        },
      }, h('label', {}, 'What it does', choice), object.nodes,
      h('label', {}, 'For how long, such as 30m or 1h30m; 30d at most', length), h('label', {}, 'Why', reason),
      isShared && h('label.check', {}, here, 'On this gateway alone'), said, forced,
      h('div.row', {}, h('button.main', { type: 'submit' }, 'Set'), h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'))));
    show();
    document.body.append(dialog);
    dialog.showModal();
  });
}
