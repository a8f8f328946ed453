import { expect, test } from 'vitest';
import { t, word } from '../src/i18n';
import { en } from '../src/i18n/en';
import { zh } from '../src/i18n/zh';
import { language } from '../src/prefs';

const holes = (text: string): string[] => [...new Set(text.match(/\{\w+\}/g))].toSorted();

test('every text is there in both languages, with the same holes', () => {
  expect(Object.keys(zh)).toEqual(Object.keys(en));
  for (const [key, text] of Object.entries(en)) {
    const other = zh[key as keyof typeof en];
    expect(other, key).not.toBe('');
    expect(holes(other), key).toEqual(holes(text));
  }
});

test('one and many', () => {
  expect(t('job.retries', { n: 1 })).toBe('up to 1 retry');
  expect(t('job.retries', { n: 1234 })).toBe('up to 1,234 retries');
  language.value = 'zh';
  expect(t('job.retries', { n: 1 })).toBe('最多重试 1 次');
  language.value = 'en';
});

test('a word from a newer control plane is shown as it is', () => {
  expect(word('is', 'too_soon')).toBe('too soon');
  expect(word('is', 'moon_phase')).toBe('moon phase');
});
