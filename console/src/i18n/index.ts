// Texts in the chosen language. The control plane sends its explanations in it too; its stable words
// (states, reasons, changes) have a label here. Its errors are shown as they are.

import { number } from '../format';
import { language } from '../prefs';
import { en } from './en';
import { zh } from './zh';

export type Key = keyof typeof en;
type Values = Record<string, string | number>;

const texts: Record<'en' | 'zh', Record<Key, string>> = { en, zh };

/** `{name}` is replaced; of `one|many`, `n` chooses. */
export function t(key: Key, values: Values = {}): string {
  const [one = '', many = one] = texts[language.value][key].split('|');
  const text = values['n'] === 1 ? one : many;
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    return typeof value === 'number' ? number(value) : (value ?? '');
  });
}

/** The label of a stable word; one from a newer control plane is shown as it is. */
export function word(group: 'state' | 'kind' | 'is', name: string): string {
  const key = `${group}.${name}`;
  return key in en ? t(key as Key) : name.replaceAll('_', ' ');
}
