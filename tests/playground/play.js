// Plays the scene of the page from its beginning to its end, frame by frame, for the test: frames come when this script calls them.

const byId = (id) => document.getElementById(id);
let next = null;
window.requestAnimationFrame = (call) => {
  next = call;
  return 1;
};

byId('again').click();
for (let stamp = 0; byId('play').textContent === 'Pause' && stamp < 60_000; stamp += 70) next(stamp);
