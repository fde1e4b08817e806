'use strict';
const figures = JSON.parse(document.getElementById('figures').textContent);
const options = { displayModeBar: false, responsive: true };
for (const [name, figure] of Object.entries(figures)) {
  Plotly.newPlot(`chart-${name}`, figure.data, figure.layout, options);
}
// Paper has a width of its own, and what is folded must be printed as well.
const folded = [];
window.addEventListener('beforeprint', () => {
  for (const one of document.querySelectorAll('details.figures:not([open])')) {
    folded.push(one);
    one.open = true;
  }
  for (const name of Object.keys(figures)) {
    Plotly.relayout(`chart-${name}`, { width: 680 });
  }
});
window.addEventListener('afterprint', () => {
  while (folded.length) folded.pop().open = false;
  for (const name of Object.keys(figures)) {
    Plotly.relayout(`chart-${name}`, { width: null, autosize: true });
  }
});
