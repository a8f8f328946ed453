import { readFileSync } from 'node:fs';
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

test('every reason and state of the control plane has a label', () => {
  const source = (file: string): string =>
    readFileSync(new URL(`../../crates/types/src/${file}.rs`, import.meta.url), 'utf8');
  const reasons = [...source('reason').matchAll(/^ {4}\w+ \{.*\} => "(\w+)",$/gm)].map((found) => found[1]);
  const states = [...source('state').matchAll(/State::\w+ => "([a-z]+)",$/gm)].map((found) => found[1]);
  expect(reasons.length).toBeGreaterThan(15);
  expect(states).toHaveLength(8);
  for (const reason of reasons) expect(en).toHaveProperty([`reason.${reason}`]);
  for (const state of states) expect(en).toHaveProperty([`state.${state}`]);
});

test('one and many', () => {
  expect(t('queue.waiting', { n: 1 })).toBe('1 waits');
  expect(t('queue.waiting', { n: 1234 })).toBe('1,234 wait');
  language.value = 'zh';
  expect(t('queue.waiting', { n: 1 })).toBe('1 个等待中');
  language.value = 'en';
});

test('a word that a newer server made up is shown as it is', () => {
  expect(word('reason', 'too_soon')).toBe('too soon');
  expect(word('reason', 'moon_phase')).toBe('moon phase');
});
