import { expect, test } from 'vitest';
import { language } from '../src/prefs';
import { Resource } from '../src/store/resource';

test('what is looked at is asked for again in the language that was chosen', async () => {
  const asked: string[] = [];
  const resource = new Resource(async () => asked.push(language.peek()));
  const forget = resource.watch();
  language.value = 'zh';
  forget();
  language.value = 'en';
  expect(asked).toEqual(['en', 'zh']);
});
