// Tables that sort by a click on a head.
(function () {
  'use strict';
  const collator = new Intl.Collator('en', { numeric: true });

  function key(row, column, numeric) {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim();
    const value = cell.dataset.value ?? cell.textContent;
    return value.trim() === '' ? NaN : Number(value);
  }

  // What has no number comes last, whichever way the others are turned.
  function compare(a, b, numeric, sign) {
    if (!numeric) return sign * collator.compare(a, b);
    if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
    return sign * (a - b);
  }

  function sort(table, head, column) {
    const numeric = head.dataset.sort === 'number';
    const sign = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => [key(row, column, numeric), row]);
    rows.sort((a, b) => compare(a[0], b[0], numeric, sign));
    body.append(...rows.map((entry) => entry[1]));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
  }

  for (const table of document.querySelectorAll('table.sortable')) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      if (!('sort' in head.dataset)) return;
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'sort';
      button.append(...head.childNodes);
      button.addEventListener('click', () => sort(table, head, column));
      head.append(button);
    });
  }
})();
