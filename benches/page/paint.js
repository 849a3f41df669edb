// Notes the first paint of the page in an attribute of its root, and lets it load until then.
new Image().src = '/wait.svg';
new PerformanceObserver((list) => {
  for (const { name, startTime } of list.getEntries()) {
    if (name === 'first-contentful-paint') document.documentElement.dataset.paint = startTime.toFixed(0);
  }
}).observe({ type: 'paint', buffered: true });
