// Makes the charts live: the picture that is there is drawn again by ECharts, which is loaded once,
// when the first chart comes near the window.
(function () {
  'use strict';
  const script = document.currentScript;
  const source = script.dataset.echarts;
  const live = [];
  let loading = null;

  function load() {
    loading ??= new Promise((resolve, reject) => {
      const element = document.createElement('script');
      element.src = source;
      element.onload = resolve;
      element.onerror = reject;
      document.head.append(element);
    });
    return loading;
  }

  // Below this width labels of rows break where their parts meet, and rows are as high as that needs.
  const NARROW = 560;
  const LINE = 14;

  function option(figure, width) {
    const style = window.getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue('--' + name).trim();
    const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const prepared = window.photofinishCharts.prepare(data, colour);
    const { grid, xAxis, yAxis } = prepared;
    prepared.textStyle = { fontFamily: window.getComputedStyle(document.body).fontFamily };
    yAxis.axisLabel.lineHeight = LINE;
    if (width < NARROW) {
      grid.left = Math.min(grid.left, 120);
      yAxis.data = yAxis.data.map((label) => label.replaceAll(' · ', '\n'));
      Object.assign(yAxis.axisLabel, { width: grid.left - 12, overflow: 'truncate' });
    }
    // Ticks that have no room give way evenly, those of "no difference" last.
    const ticks = xAxis.axisLabel.customValues;
    const every = Math.ceil((ticks.length * 50) / Math.max(width - grid.left - grid.right, 50));
    const first = Math.max(ticks.indexOf(1), 0) % every;
    const kept = ticks.filter((_, place) => place % every === first);
    xAxis.axisLabel.customValues = kept;
    xAxis.axisTick.customValues = kept;
    return prepared;
  }

  // The height of the picture that was there, so that nothing below moves; more where labels of
  // several lines need it.
  function height(drawn, { grid, yAxis }) {
    const rows = Math.max(yAxis.data.length, 1);
    const edges = grid.top + grid.bottom;
    const lines = Math.max(...yAxis.data.map((label) => label.split('\n').length), 1);
    const least = lines > 1 ? lines * LINE + 10 : 0;
    return edges + rows * Math.max((drawn - edges) / rows, least);
  }

  // Everything anew: what an earlier width asked for must not stay.
  function draw({ figure, chart, stage, drawn }) {
    const width = stage.clientWidth;
    const prepared = option(figure, width);
    stage.style.height = height(drawn, prepared) + 'px';
    chart.resize();
    chart.setOption(prepared, { notMerge: true });
    figure.dataset.live = width;
  }

  function start(figure) {
    const box = figure.querySelector('.chart-box');
    const picture = box.querySelector('.chart-static');
    const stage = document.createElement('div');
    stage.className = 'chart-live';
    const drawn = Number(picture.getAttribute('height'));
    stage.style.height = drawn + 'px';
    picture.classList.add('replaced');
    box.append(stage);
    const chart = window.echarts.init(stage, null, { renderer: 'canvas' });
    const entry = { figure, chart, stage, drawn };
    draw(entry);
    live.push(entry);
    new ResizeObserver(() => {
      if (Number(figure.dataset.live) !== stage.clientWidth) draw(entry);
    }).observe(stage);
  }

  document.addEventListener('photofinish:theme', () => {
    live.forEach(draw);
  });

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      // Where it cannot be loaded, the picture stays.
      load().then(() => start(target), () => {});
    }
  }, { rootMargin: '400px' });
  for (const figure of document.querySelectorAll('[data-chart]')) near.observe(figure);
})();
