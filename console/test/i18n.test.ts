import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { STATES } from '../src/api/types';
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

test('states have the words of the API and of the command line, in both languages', () => {
  const source = readFileSync('../crates/types/src/state.rs', 'utf8');
  const described = source.slice(source.indexOf('fn describe'));
  for (const state of STATES) {
    expect(en[`state.${state}`].toLowerCase()).toBe(state);
    const name = state.charAt(0).toUpperCase() + state.slice(1);
    const chinese = new RegExp(`State::${name} => "([^"]+)"`).exec(described)?.[1];
    expect(zh[`state.${state}`]).toBe(chinese);
  }
  // The command is `ray-multicluster retry`.
  expect(en.rerun).toBe('Retry');
});
