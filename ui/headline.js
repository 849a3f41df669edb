// The lines above every view: what is wrong with the gateway, and whether there is a connection to it at all.

import { announce, h, renew, say } from './dom.js';

const $ = (id) => document.getElementById(id);
let known = new Set();

/** Shows the problems that the gateway reports, each with its entry in the runbook. A screen reader hears the ones that are new. */
export function showProblems({ problems, problems_omitted: omitted }) {
  $('problems').hidden = problems.length === 0;
  renew($('problems'), h('ul', {}, problems.map(({ severity, sentence, entry, runbook }) => h(`li.${severity}`, {},
    h('b', {}, severity === 'critical' ? 'Critical: ' : 'Warning: '), `${sentence} `,
    h('a', { href: runbook, target: '_blank', rel: 'noopener noreferrer' }, `Runbook: ${entry}`))),
  omitted > 0 && h('li', {}, `and ${omitted} more, in /status`)));
  const name = (problem) => `${problem.kind} ${problem.name} ${problem.severity}`;
  const fresh = problems.filter((problem) => !known.has(name(problem)));
  if (fresh.length) announce(fresh.map(({ sentence }) => sentence).join(' '));
  else if (!problems.length && known.size) announce('No problem is left.');
  known = new Set(problems.map(name));
}

/** Dims what is shown while there is no connection. `since`: the time of the latest event; null before the first. */
export function showConnection(isLive, since) {
  const isLost = !isLive && since !== null;
  document.body.classList.toggle('lost', isLost);
  $('gone').hidden = !isLost;
  say($('gone'), isLost ? `No connection to the gateway. What is shown is from ${since.toLocaleTimeString('en-GB')}.` : '');
}
