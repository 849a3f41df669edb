// Asks the admin listener, with the token that was typed in. The token is kept for this tab alone, and never in a cookie or an address.

const KEY = 'sluicegate-token';
const BASE = new URL('../', document.baseURI);

let actions = 'none';
/** The name and the role of the token, as the gateway says. */
let operator = { name: null, role: null };

export const token = () => sessionStorage.getItem(KEY);
export const keepToken = (text) => sessionStorage.setItem(KEY, text.trim());
export const forgetToken = () => sessionStorage.removeItem(KEY);

/** Notes whether the gateway has a token, without which it takes no action. */
export const noteActions = (what) => { actions = what; };
export const noteOperator = (name, role) => { operator = { name, role }; };
export const operatorName = () => operator.name;
export const mayAct = () => actions === 'token' && operator.role === 'act';
/** Returns whether the gateway asks for tokens: whoever sees the page then has one, and reads who clients and keys are. */
export const hasToken = () => actions === 'token';

/** The reason why nothing can be changed here. */
export const whyReadOnly = () => (actions === 'token'
  ? `Read-only: the token ${operator.name} has the role read. A change needs a token with the role act.`
  : 'Read-only: [admin] token_file is not set, so no client can prove that it may change something. '
    + 'Write token_file = "/etc/sluicegate/admin-token" in [admin] to clear, ban and grant keys here.');

/** An answer that is no success. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Sends a request below the listener's root, whatever the prefix is. */
export async function send(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token() !== null) headers.set('Authorization', `Bearer ${token()}`);
  let answer;
  try {
    answer = await fetch(new URL(path, BASE), { ...options, headers, cache: 'no-store', credentials: 'omit', redirect: 'error' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The gateway does not answer.');
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw new ApiError(answer.status, body?.error ?? `The answer is ${answer.status}.`);
}

/** The latest request for data. The gateway walks through one table at a time, so this page asks one after the other. */
let latest = Promise.resolve();

/** Reads JSON, after the requests before it. */
export function read(path, options) {
  const answer = latest.then(() => attempt(path, options));
  latest = answer.catch(() => null);
  return answer;
}

/** Reads JSON. A walk that one of another page holds up is asked for again. */
async function attempt(path, options) {
  for (let turn = 0; ; turn += 1) {
    try {
      return await (await send(path, options)).json();
    } catch (error) {
      if (error.status !== 503 || turn >= 5 || options?.method) throw error;
      await new Promise((done) => setTimeout(done, 300 * (turn + 1)));
    }
  }
}

export const change = (path, method, body) => read(path, { method, body: body && JSON.stringify(body) });

/** The part of a path that names a limit or a value. */
export const part = encodeURIComponent;
