import { defineConfig } from 'vitest/config';

// Where `npm run dev` finds a control plane.
const plane = process.env['PLANE'] ?? 'http://127.0.0.1:8700';
// As one from its own address, which the control plane wants to see.
const forward = { target: plane, changeOrigin: true, headers: { origin: plane } };

export default defineConfig({
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2022',
    // The Content-Security-Policy allows neither inline scripts nor inline styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Names with a hash: the server lets browsers keep them for good.
    assetsDir: 'assets',
  },
  test: { setupFiles: ['test/setup.ts'] },
  server: { proxy: { '/v1': forward } },
});
