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

  function option(figure) {
    const style = window.getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue('--' + name).trim();
    const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const prepared = window.photofinishCharts.prepare(data, colour);
    prepared.textStyle = { fontFamily: window.getComputedStyle(document.body).fontFamily };
    // On a narrow screen the labels leave room for the picture.
    if (figure.clientWidth < 560) {
      prepared.grid.left = Math.min(prepared.grid.left, 116);
      Object.assign(prepared.yAxis.axisLabel, { width: 106, overflow: 'break', lineHeight: 14 });
      prepared.xAxis.axisLabel.hideOverlap = true;
    }
    return prepared;
  }

  function start(figure) {
    const box = figure.querySelector('.chart-box');
    const drawn = box.querySelector('.chart-static');
    const stage = document.createElement('div');
    stage.className = 'chart-live';
    // The height stays what it was: nothing below moves.
    stage.style.height = drawn.getAttribute('height') + 'px';
    drawn.classList.add('replaced');
    box.append(stage);
    const chart = window.echarts.init(stage, null, { renderer: 'canvas' });
    const entry = { figure, chart };
    chart.setOption(option(figure));
    live.push(entry);
    new ResizeObserver(() => {
      chart.resize();
      chart.setOption(option(figure));
    }).observe(stage);
    figure.dataset.live = '1';
  }

  document.addEventListener('photofinish:theme', () => {
    for (const { figure, chart } of live) chart.setOption(option(figure));
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
