// Light or dark: the system's choice, unless the reader makes another. Loaded before the first
// paint, so that nothing flashes.
(function () {
  'use strict';
  const KEY = 'photofinish-theme';
  const root = document.documentElement;
  const system = window.matchMedia('(prefers-color-scheme: dark)');

  // Storage may be forbidden, for pages opened from a disk too.
  function stored() {
    try {
      return window.localStorage.getItem(KEY);
    } catch {
      return null;
    }
  }

  function store(theme) {
    try {
      window.localStorage.setItem(KEY, theme);
    } catch {
      // The choice then lasts as long as the page.
    }
  }

  function current() {
    return root.dataset.theme || (system.matches ? 'dark' : 'light');
  }

  const chosen = stored();
  if (chosen === 'light' || chosen === 'dark') root.dataset.theme = chosen;

  document.addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');
    if (!button) return;
    const label = button.querySelector('.theme-label');
    const tell = () => {
      label.textContent = current() === 'dark' ? 'Light theme' : 'Dark theme';
      document.dispatchEvent(new CustomEvent('photofinish:theme'));
    };
    button.addEventListener('click', () => {
      const next = current() === 'dark' ? 'light' : 'dark';
      root.dataset.theme = next;
      store(next);
      tell();
    });
    system.addEventListener('change', tell);
    button.hidden = false;
    tell();
  });
})();
