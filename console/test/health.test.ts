import { expect, test } from 'vitest';
import type { Cluster } from '../src/api/types';
import { language } from '../src/prefs';
import { condition, healthNote } from '../src/ui/badges';

const cluster = (health: Cluster['health']): Cluster => ({ health }) as Cluster;

test('a cluster that refuses the token says so, in the language that was chosen', () => {
  const refused = cluster({
    state: 'unauthorized',
    since_at: 1,
    error: 'token_file /etc/token was refused',
  });
  expect(condition(refused)).toEqual({ name: 'unauthorized', tone: 'bad' });
  expect(healthNote(refused)).toBe('Unauthorized: token_file /etc/token was refused');
  language.value = 'zh';
  expect(healthNote(refused)).toBe('未授权：token_file /etc/token was refused');
  language.value = 'en';
});

test('one that is silent says since when', () => {
  const silent = cluster({ state: 'unhealthy', since_at: Date.now() - 5000, error: 'refused' });
  expect(condition(silent).name).toBe('unhealthy');
  expect(healthNote(silent)).toMatch(/^No response for .* refused$/);
});
