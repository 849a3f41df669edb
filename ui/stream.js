// Follows /events by fetch, since an EventSource cannot send Authorization. It opens the stream again when it ends, slower each time.

import { noteOperator, send } from './access.js';

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30000;
/** A hidden page gives its stream back after this time. */
const HIDDEN = 60000;
/** The gateway sends something each second. */
const SILENCE = 10000;

/** Follows until `stop()`. `onEvent(name, value)`; `onState(state, error)` with connecting, live, waiting, denied, hidden. */
export function follow(onEvent, onState) {
  let aborter = null;
  let timer = null;
  let pause = FIRST_PAUSE;
  let stopped = false;

  async function run() {
    aborter = new AbortController();
    const { signal } = aborter;
    onState('connecting');
    let error = null;
    try {
      const answer = await send('events', { signal });
      noteOperator(answer.headers.get('sluicegate-operator'), answer.headers.get('sluicegate-role'));
      onState('live');
      for await (const [name, value] of events(answer.body, aborter)) {
        pause = FIRST_PAUSE;
        onEvent(name, value);
      }
    } catch (caught) {
      error = caught;
    }
    if (stopped || (signal.aborted && signal.reason === 'hidden')) return;
    if (error?.status === 401) {
      onState('denied', error);
      return;
    }
    onState('waiting', error);
    timer = setTimeout(run, pause);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }

  function restart() {
    clearTimeout(timer);
    aborter?.abort('hidden');
    pause = FIRST_PAUSE;
    run();
  }

  let hiding = null;
  function seen() {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        clearTimeout(timer);
        aborter?.abort('hidden');
        aborter = null;
        onState('hidden');
      }, HIDDEN);
    } else if (aborter === null) {
      restart();
    }
  }
  document.addEventListener('visibilitychange', seen);
  run();
  return {
    restart,
    stop() {
      stopped = true;
      clearTimeout(timer);
      clearTimeout(hiding);
      document.removeEventListener('visibilitychange', seen);
      aborter?.abort('stopped');
    },
  };
}

/** Parses the stream: fields of one line each, a blank line behind each event. */
async function* events(body, aborter) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const silence = setTimeout(() => aborter.abort('silence'), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = new Map(block.split('\n').map((line) => line.split(/: (.*)/s, 2)));
      if (fields.has('data')) yield [fields.get('event'), JSON.parse(fields.get('data'))];
    }
  }
}
