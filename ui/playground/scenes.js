// The scenes: each is a page that makes one point. `look` says where to look, in one sentence; the picture says the rest.

export const SCENES = {
  edge: {
    title: 'Attack at a window’s edge',
    look: 'Ten requests just before 10 s, ten just after. The fixed window starts again at its edge and lets all twenty through. The sliding window still counts the ten of the window before: they fade out, so one more passes here, not ten.',
    page: { lanes: 'exact,sliding-window,fixed-window', requests: '9400x10-50,10100x10-50,22000x10-150', span: 30000 },
  },
  'sliding-window': {
    title: 'Two counts that slide',
    look: 'The hatched area is the window before: it counts by the share of it that the last 10 s still cover. What it gives up, new requests may take. Compare where the exact log reopens.',
    page: { lanes: 'exact,sliding-window', requests: '2000x10-700,10500x38-500', span: 40000 },
  },
  exact: {
    title: 'Every admission remembered',
    look: 'Each admission counts for exactly 10 s and not a moment longer, wherever windows begin. The fixed window forgets at 10 s and at 20 s: the red line is what an exact log would have counted.',
    page: { lanes: 'exact,fixed-window', requests: '6000x8-450,14000x14-400,24000x10-600', span: 35000 },
  },
  'first-request': {
    title: 'Windows that clients begin',
    look: 'The window begins with a first request. One request, nine at its end and ten when the next begins: nineteen in ten seconds, and no edge that all clients share.',
    page: { lanes: 'exact,first-request,fixed-window', requests: '3000,12300x9-60,13050x10-50', span: 30000 },
  },
  herd: {
    title: 'A herd that comes back apart',
    look: 'Two clients ask again as soon as they may. Windows of the clock begin at once for both, so both come back in the same second, as would a million. By key, a window of one begins while that of the other lasts.',
    page: { lanes: 'by-key,fixed-window', requests: '500x60-500,b600x60-500', span: 31000 },
  },
  'token-bucket': {
    title: 'Tokens that come back',
    look: 'A full bucket lets a burst through at once. Then a token comes back each second, or all of them when a period ends.',
    page: { lanes: 'exact,token-bucket,token-bucket-interval', requests: '4000x15-20,8000x4-1000,24000x15-20', span: 35000 },
  },
  gcra: {
    title: 'GCRA: one moment per key',
    look: 'GCRA keeps the moment at which nothing is owed any more. Its decisions are those of the token bucket, request by request. A burst of 3 is all that comes at once.',
    page: { lanes: 'exact,gcra,token-bucket', burst: 3, requests: '2000x8-100,5000x20-500,20000x8-100', span: 30000 },
  },
  'leaky-bucket': {
    title: 'A queue that drains',
    look: 'Fifteen requests at once: the first leaves, eight wait for their turn and leave one a second, six are refused. What comes out is even, whatever came in. The token bucket lets the same burst through at once.',
    page: { lanes: 'leaky-bucket,token-bucket', queue: 8, requests: '2000x15-10,14500x6-10', span: 25000 },
  },
  clients: {
    title: 'Two clients, one key',
    look: 'A patient client a and a greedy client b (paler) count by one key: b takes what a would have had. Switch to a key of each client and a passes untouched.',
    page: { lanes: 'sliding-window,gcra', keys: 'shared', requests: '500x27-1500,b8000x80-250', span: 40000 },
  },
  rates: {
    title: 'Two rates, all or nothing',
    look: 'At most 10 in 10 s, and at most 20 in a minute. The third burst is refused although the last 10 s were empty: the longer rate has nothing left, and a refused request takes from neither. A new minute of the fixed window takes ten more at 61 s, the sliding window still counts the one before.',
    page: {
      lanes: 'exact,sliding-window,fixed-window',
      count2: 20,
      requests: '1000x10-50,21000x12-50,33000x10-50,61000x14-100',
      span: 75000,
    },
  },
  pause: {
    title: 'Silence, then a burst',
    look: 'After a pause every algorithm is empty again and takes a burst; they differ in what comes after it.',
    page: { lanes: 'exact,sliding-window,fixed-window,gcra', requests: '500x12-900,26000x20-40,28000x12-1000', span: 40000 },
  },
  throttling: {
    title: 'Throttle a burst',
    look: 'Forty requests within a second: twenty pass at once, the next are slowed to two a second, and only what does not fit into the queue is refused. The exact limit refuses twenty.',
    page: { lanes: 'throttling,exact', count: 20, slow: 20, maxWait: 6, requests: '1000x40-20', span: 14000 },
  },
};
