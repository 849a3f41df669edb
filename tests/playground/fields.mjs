// Writes the fields of decisions as the playground shows them, one line of output a line of input.
//
//   NAME admitted|refused WAIT COUNT/PERIOD/REMAINING/NEXT_FREE…   waits in nanoseconds, the rates separated by commas

import { readFileSync } from 'node:fs';

import { responseFields } from '../../ui/playground/fields.js';

for (const line of readFileSync(0, 'utf8').trim().split('\n')) {
  const [name, outcome, wait, rates] = line.split(' ');
  const statuses = rates.split(',').map((rate) => {
    const [count, period, remaining, nextFree] = rate.split('/');
    return { count: Number(count), period: Number(period), remaining: Number(remaining), nextFree: BigInt(nextFree) };
  });
  const fields = responseFields(name, { admitted: outcome === 'admitted', retryAfter: BigInt(wait), statuses });
  console.log(fields.map(([field, value]) => `${field.toLowerCase()}: ${value}`).join(' | '));
}
