// What the modules expect of a browser at their first line; nothing here is a browser.

import { vi } from 'vitest';

const nothing = (): void => undefined;

vi.stubGlobal('location', { hash: '' });
vi.stubGlobal('history', { state: null, replaceState: nothing });
vi.stubGlobal('navigator', { language: 'en-GB' });
vi.stubGlobal('addEventListener', nothing);
vi.stubGlobal('localStorage', { getItem: () => null, setItem: nothing });
vi.stubGlobal('document', {
  documentElement: { lang: '', dataset: {} },
  hidden: false,
  addEventListener: nothing,
});
