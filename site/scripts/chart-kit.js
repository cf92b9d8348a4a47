// What the charts of this site share, whether they are drawn at report time or in a browser:
// marks with their intervals, and colours by name.
(function (root) {
  'use strict';

  const COLOUR_KEYS = new Set(['color', 'borderColor', 'backgroundColor']);

  // The corners of a cross that stands upright.
  const PLUS = [
    [-2, -6], [2, -6], [2, -2], [6, -2], [6, 2], [2, 2], [2, 6], [-2, 6], [-2, 2], [-6, 2], [-6, -2], [-2, -2],
  ];

  function marker(shape, x, y, style) {
    const r = 5;
    const polygon = (points) => ({ type: 'polygon', shape: { points }, style });
    switch (shape) {
      case 1: return polygon([[x, y - 6.5], [x + 6.5, y], [x, y + 6.5], [x - 6.5, y]]);
      case 2: return { type: 'rect', shape: { x: x - 4.5, y: y - 4.5, width: 9, height: 9 }, style };
      case 3: return polygon([[x, y - 6], [x + 6, y + 5], [x - 6, y + 5]]);
      case 4: return polygon([[x, y + 6], [x + 6, y - 5], [x - 6, y - 5]]);
      case 5: return polygon(PLUS.map(([a, b]) => [x + a, y + b]));
      case 6: return polygon([[x - 5, y - 6], [x + 5, y - 6], [x - 5, y + 6], [x + 5, y + 6]]);
      case 7: return polygon(PLUS.map(([a, b]) => [x + (a - b) * 0.75, y + (a + b) * 0.75]));
      default: return { type: 'circle', shape: { cx: x, cy: y, r }, style };
    }
  }

  function line(x1, y1, x2, y2, style) {
    return { type: 'line', shape: { x1, y1, x2, y2 }, style };
  }

  // A datum: [centre, row, low, high, offset as a share of the row, shape]. An end that
  // is missing is unbounded: its line is dashed and runs to the edge.
  function interval(params, api) {
    const [x, middle] = api.coord([api.value(0), api.value(1)]);
    const band = api.size([0, 1])[1];
    const y = middle + api.value(4) * band;
    const area = params.coordSys;
    const colour = api.visual('color');
    const solid = { stroke: colour, lineWidth: 2 };
    const dashed = { stroke: colour, lineWidth: 2, lineDash: [3, 3] };
    const children = [];
    for (const [value, edge] of [[api.value(2), area.x], [api.value(3), area.x + area.width]]) {
      if (Number.isFinite(value)) {
        const end = api.coord([value, api.value(1)])[0];
        children.push(line(x, y, end, y, solid), line(end, y - 4, end, y + 4, solid));
      } else {
        children.push(line(x, y, edge, y, dashed));
      }
    }
    children.push(marker(api.value(5), x, y, { fill: colour }));
    return { type: 'group', children };
  }

  // A datum: [where the line stands, low end of the band, high end of the band].
  function reference(params, api) {
    const area = params.coordSys;
    const inside = (x) => Math.min(Math.max(x, area.x), area.x + area.width);
    const at = (value) => inside(api.coord([value, 0])[0]);
    const [one, low, high] = [at(api.value(0)), at(api.value(1)), at(api.value(2))];
    const colour = api.visual('color');
    return {
      type: 'group',
      children: [
        {
          type: 'rect',
          shape: { x: low, y: area.y, width: high - low, height: area.height },
          style: { fill: colour, opacity: 0.13 },
        },
        line(one, area.y, one, area.y + area.height, { stroke: colour, lineWidth: 1.5 }),
      ],
    };
  }

  const DRAWERS = { interval, reference };

  // A number as tables write it: a narrow space between thousands, a point before decimals.
  function number(value) {
    const [whole, decimals] = String(Number(value.toPrecision(12))).split('.');
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, '\u202f');
    return decimals === undefined ? grouped : `${grouped}.${decimals}`;
  }

  const UNITS = { ns: 1, 'µs': 1e3, ms: 1e6, s: 1e9 };

  function inUnit(unit) {
    return (ns) => (ns === 0 ? '0' : `${number(ns / UNITS[unit])}\u00a0${unit}`);
  }

  function time(ns) {
    const fits = Object.keys(UNITS).filter((unit) => ns >= UNITS[unit]);
    return inUnit(fits.pop() ?? 'ns')(ns);
  }

  // How ticks are written: ratios, times each in the unit that suits it, times all in one unit.
  const FORMATTERS = { ratio: (value) => `${number(value)}×`, time };
  for (const unit of Object.keys(UNITS)) FORMATTERS[unit] = inUnit(unit);

  // Puts colours and drawing functions in the places of their names.
  function prepare(value, colour, key) {
    if (typeof value === 'string') {
      if (COLOUR_KEYS.has(key) && value.startsWith('@')) return colour(value.slice(1));
      if (key === 'formatter') return FORMATTERS[value] ?? value;
      return key === 'renderItem' ? DRAWERS[value] : value;
    }
    if (Array.isArray(value)) return value.map((item) => prepare(item, colour, key));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, prepare(item, colour, name)]),
    );
  }

  root.photofinishCharts = { prepare };
})(globalThis);
