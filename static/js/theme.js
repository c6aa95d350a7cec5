// The theme: as the system, light or dark, kept in this browser.

const ORDER = /** @type {const} */ (['auto', 'light', 'dark']);
const LABEL = { auto: 'as the system', light: 'light', dark: 'dark' };

function current() {
  const set = document.documentElement.dataset.theme;
  return set === 'light' || set === 'dark' ? set : 'auto';
}

/** @param {'auto' | 'light' | 'dark'} theme */
function apply(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === 'auto') localStorage.removeItem('fairlead:theme');
    else localStorage.setItem('fairlead:theme', theme);
  } catch {
    // The choice lasts as long as the page.
  }
}

export function bindTheme() {
  const buttons = document.querySelectorAll('[data-theme-toggle]');
  const name = () => buttons.forEach((button) => {
    button.setAttribute('aria-label', `Theme: ${LABEL[current()]}`);
    button.setAttribute('title', `Theme: ${LABEL[current()]}`);
  });
  buttons.forEach((button) => button.addEventListener('click', () => {
    apply(ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length] ?? 'auto');
    name();
  }));
  addEventListener('storage', (event) => {
    if (event.key !== 'fairlead:theme') return;
    apply(event.newValue === 'light' || event.newValue === 'dark' ? event.newValue : 'auto');
    name();
  });
  name();
}
