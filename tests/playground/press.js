// Presses the controls of the page, for the test: what a person does, without waiting.

const byId = (id) => document.getElementById(id);
const click = (id) => byId(id).click();
const choose = (id, value) => {
  byId(id).value = value;
  byId(id).dispatchEvent(new Event('change', { bubbles: true }));
};

click('play');
choose('stream-rate', '100');
click('stream');
for (let turn = 0; turn < 3; turn += 1) click('skip');
document.body.dataset.full = byId('said').textContent;
click('play');
click('clear');
click('play');
click('play');
click('hit');
click('hit');
choose('burst-size', '12');
click('burst');
choose('client', 'b');
click('hit');
click('step');
document.body.dataset.clock = byId('clock').textContent;
document.body.dataset.said = byId('said').textContent;
document.body.dataset.hash = location.hash;
click('skip');
choose('number-count', '20');
