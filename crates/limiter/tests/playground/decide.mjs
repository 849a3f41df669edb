// Decides the asks on standard input by the engine of the playground, one line of output an ask.
//
//   limit ALGORITHM rates=COUNT/SECONDS,… [burst=N] [refill=interval] [align=…] [key=HASH] [queue=N] [max_wait=MILLISECONDS]
//   ask NANOSECONDS COST PROBE_NANOSECONDS PROBE_COST
//
// An ask charges the key of the latest limit. The answer has the decision, its delay, the share that the state says is used in thousandths,
// and the decision that the probe would get at its moment: that compares all that the state holds.

import { readFileSync } from 'node:fs';

import { keyPhase } from '../../../../ui/playground/engine/key-phase.js';
import { decide, makeLimit, peek, unusedState } from '../../../../ui/playground/engine/limit.js';

// Days in Berlin around the transitions of 2027, as the vectors have them.
function berlinDay(millis) {
  const second = Math.floor(millis / 1000);
  const offset = (at) => (at >= 1_806_195_600 && at < 1_824_944_400 ? 7200 : 3600);
  const day = Math.floor((second + offset(second)) / 86_400) * 86_400;
  const begin = (local) => local - offset(local - 7200);
  return { start: begin(day) * 1000, length: (begin(day + 86_400) - begin(day)) * 1000 };
}

function limitOf(algorithm, words) {
  const settings = { algorithm };
  for (const word of words) {
    const [name, value] = word.split('=');
    if (name === 'rates') {
      settings.rates = value.split(',').map((rate) => {
        const [count, period] = rate.split('/').map(Number);
        return { count, period };
      });
    } else if (name === 'align') {
      settings.align = value === 'berlin-days' ? berlinDay : value;
    } else if (name === 'key') {
      settings.align = { phase: keyPhase(BigInt(value)) };
    } else if (name === 'refill') {
      settings.refill = value;
    } else {
      settings[{ burst: 'burst', queue: 'queue', max_wait: 'maxWait' }[name]] = Number(value);
    }
  }
  return makeLimit(settings);
}

// Thousandths of the fullest rate that are used.
function fullness(limit, state, now) {
  const used = limit.judge.used(state, now);
  const { statuses } = peek(limit, state, now, 1);
  const shares = statuses.map(({ count, remaining }, rate) => {
    const all = limit.algorithm === 'exact' ? count : used[rate] + remaining;
    return all === 0 ? 0 : Math.floor((1000 * (all - remaining)) / all);
  });
  return Math.max(...shares);
}

function spell({ admitted, statuses, refusingRate }) {
  const told = statuses.map(({ remaining, nextFree, reset }) => `${remaining}/${nextFree}/${reset}`);
  return `${admitted ? 'admitted' : 'refused'} ${told.join(',')} ${refusingRate ?? '-'}`;
}

let limit;
let state;
const out = [];
for (const line of readFileSync(0, 'utf8').split('\n')) {
  const [kind, first, ...rest] = line.split(' ');
  if (kind === 'limit') {
    limit = limitOf(first, rest);
    state = unusedState(limit);
  } else if (kind === 'ask') {
    const now = BigInt(first);
    const made = decide(limit, state, now, Number(rest[0]));
    state = made.state;
    const probe = peek(limit, state, BigInt(rest[1]), Number(rest[2]));
    out.push(`${spell(made.decision)} ${made.decision.delay} ${fullness(limit, state, now)} ${spell(probe)}`);
  }
}
process.stdout.write(out.map((line) => `${line}\n`).join(''));
