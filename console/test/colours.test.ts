import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

/** What WCAG asks of text at level AA. */
const LEAST = 4.5;

const source = readFileSync(new URL('../src/styles/tokens.css', import.meta.url), 'utf8');
const pairs = new Map(
  [...source.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map((found) => [
    found[1]!,
    [found[2]!, found[3]!],
  ]),
);

function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (high! + 0.05) / (low! + 0.05);
}

const GROUNDS = ['ground', 'surface', 'raised', 'hover'];
const TEXTS: Record<string, string[]> = {
  text: [...GROUNDS, 'idle-soft', 'accent-soft'],
  muted: [...GROUNDS, 'idle-soft', 'accent-soft'],
  accent: [...GROUNDS, 'accent-soft'],
  good: [...GROUNDS, 'good-soft'],
  warn: [...GROUNDS, 'warn-soft'],
  bad: [...GROUNDS, 'bad-soft'],
};

test.each(Object.keys(TEXTS))('%s can be read on whatever is behind it, light and dark', (name) => {
  for (const ground of TEXTS[name]!) {
    for (const look of [0, 1]) {
      const found = contrast(pairs.get(name)![look]!, pairs.get(ground)![look]!);
      expect(found, `${name} on ${ground}, ${look ? 'dark' : 'light'}`).toBeGreaterThanOrEqual(LEAST);
    }
  }
});

test('white can be read on a filled button', () => {
  for (const fill of pairs.get('accent-fill')!)
    expect(contrast('#ffffff', fill)).toBeGreaterThanOrEqual(LEAST);
});
