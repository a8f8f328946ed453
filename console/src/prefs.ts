// Language and theme, remembered by the browser.

import { effect, signal } from '@preact/signals';

export type Language = 'en' | 'zh';
export type Theme = 'system' | 'light' | 'dark';

export const language = remembered<Language>('language', ['en', 'zh'], preferredLanguage());
export const theme = remembered<Theme>('theme', ['system', 'light', 'dark'], 'system');

effect(() => {
  document.documentElement.lang = language.value === 'zh' ? 'zh-CN' : 'en';
});
effect(() => {
  document.documentElement.dataset['theme'] = theme.value;
});

function preferredLanguage(): Language {
  return navigator.language.startsWith('zh') ? 'zh' : 'en';
}

/** A choice that is kept in the browser, if it allows that. */
function remembered<T extends string>(name: string, choices: readonly T[], otherwise: T) {
  const key = `ray-multicluster.${name}`;
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(key);
  } catch {
    // Storage is forbidden here.
  }
  const first = choices.find((choice) => choice === kept);
  const value = signal<T>(first ?? otherwise);
  let chosen = first !== undefined;
  effect(() => {
    const now = value.value;
    chosen ||= now !== otherwise;
    if (!chosen) return;
    try {
      localStorage.setItem(key, now);
    } catch {
      // The same.
    }
  });
  return value;
}
