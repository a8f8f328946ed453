import { expect, test } from 'vitest';
import cases from '../../crates/types/tests/fixtures/last_lines.json';
import { bytes, duration, lastLine, part, percent, resources, roughly } from '../src/format';
import { language } from '../src/prefs';

test('lengths of time have two units at most', () => {
  expect(duration(0)).toBe('0 s');
  expect(duration(-5)).toBe('0 s');
  expect(duration(59_400)).toBe('59 s');
  expect(duration(60_000)).toBe('1 min');
  expect(duration(245_000)).toBe('4 min 5 s');
  expect(duration(3 * 3_600_000 + 20 * 60_000 + 9000)).toBe('3 h 20 min');
  expect(duration(52 * 3_600_000)).toBe('2 d 4 h');
  expect(roughly(245_000)).toBe('4 min');
});

test('they are said in the language that was chosen', () => {
  language.value = 'zh';
  expect(duration(245_000)).toBe('4 分钟 5 秒');
  language.value = 'en';
});

test('amounts say their unit once', () => {
  expect(bytes(16 * 2 ** 30)).toBe('16 GiB');
  expect(bytes(1.5 * 2 ** 30)).toBe('1.5 GiB');
  expect(part('memory', 3 * 2 ** 30, 16 * 2 ** 30)).toBe('3 / 16 GiB');
  expect(part('CPU', 0.5, 32)).toBe('0.5 / 32');
  expect(resources({ memory: 2 ** 30, CPU: 2, tpu: 1, GPU: 0 })).toBe('2 CPU · 1 GiB · 1 tpu');
});

test('what is unknown is a dash, not nought', () => {
  expect(percent(null)).toBe('–');
  expect(percent(undefined)).toBe('–');
  expect(percent(0)).toBe('0 %');
  expect(percent(0.704)).toBe('70 %');
});

test('of a failure the line that says what happened is shown, as the control plane picks it', () => {
  expect(cases.length).toBeGreaterThan(5);
  for (const [text, line] of cases) expect(lastLine(text!)).toBe(line);
});
