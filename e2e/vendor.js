// Copies the few files that the browser needs from node_modules to
// static/vendor, where they are committed: the Go build never calls npm.
// Run by `npm run vendor` after a version of package.json has changed.
import { copyFileSync, mkdirSync } from 'node:fs';

const to = new URL('../static/vendor/', import.meta.url);
const from = (/** @type {string} */ path) => new URL(`../node_modules/${path}`, import.meta.url);

mkdirSync(to, { recursive: true });
for (const family of ['sans', 'mono']) {
  const name = `ibm-plex-${family}`;
  for (const subset of ['latin', 'latin-ext']) {
    for (const weight of ['400', '500', '600']) {
      const file = `${name}-${subset}-${weight}-normal.woff2`;
      copyFileSync(from(`@fontsource/${name}/files/${file}`), new URL(file, to));
    }
  }
  copyFileSync(from(`@fontsource/${name}/LICENSE`), new URL(`${name}.LICENSE.txt`, to));
}
const italic = 'ibm-plex-sans-latin-400-italic.woff2';
copyFileSync(from(`@fontsource/ibm-plex-sans/files/${italic}`), new URL(italic, to));
copyFileSync(from('idiomorph/dist/idiomorph.esm.js'), new URL('idiomorph.esm.js', to));
copyFileSync(from('idiomorph/LICENSE'), new URL('idiomorph.LICENSE.txt', to));
