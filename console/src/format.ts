// Numbers, durations and times for people.

import { t } from './i18n';
import { language } from './prefs';
import type { Moment, Resources } from './api/types';

const locale = (): string => (language.value === 'zh' ? 'zh-CN' : 'en-GB');

/** `7`, `12,345`, `0.83`. */
export function number(value: number, digits = 0): string {
  return value.toLocaleString(locale(), { maximumFractionDigits: digits });
}

/** `37 %`; a dash if unknown. */
export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? '–' : `${Math.round(share * 100)} %`;
}

const TIME_UNITS = { en: ['s', 'min', 'h', 'd'], zh: ['秒', '分钟', '小时', '天'] } as const;

/** `23 s`, `4 min 5 s`, `3 h 20 min`, `2 d 4 h`: two units at most. */
export function duration(ms: number): string {
  const [s, min, h, d] = TIME_UNITS[language.value];
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} ${s}`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, min, seconds % 60, s);
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return pair(hours, h, minutes % 60, min);
  return pair(Math.floor(hours / 24), d, hours % 24, h);
}

/** The same in one unit, for times long ago. */
export function roughly(ms: number): string {
  return duration(ms).split(' ').slice(0, 2).join(' ');
}

function pair(large: number, unit: string, small: number, smallUnit: string): string {
  return small ? `${large} ${unit} ${small} ${smallUnit}` : `${large} ${unit}`;
}

/** `14:03:22` of today, `15 Nov 14:03` of another day. */
export function clock(at: Moment, now: Moment): string {
  const date = new Date(at);
  const time = date.toLocaleTimeString(locale(), { hour12: false });
  if (date.toDateString() === new Date(now).toDateString()) return time;
  const day = date.toLocaleDateString(locale(), { day: 'numeric', month: 'short' });
  return `${day} ${time.slice(0, 5)}`;
}

/** The full date and time, for tooltips. */
export function fullMoment(at: Moment): string {
  return new Date(at).toLocaleString(locale(), { hour12: false });
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `16 GiB`, `1.5 GiB`, `512 MiB`. */
export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${number(value, value < 10 ? 1 : 0)} ${UNITS[unit]}`;
}

/** `19 / 32`, `3 / 16 GiB`: the unit once. */
export function part(resource: string, some: number, all: number): string {
  if (!resource.endsWith('memory')) return `${number(some, 2)} / ${number(all, 2)}`;
  const [whole = '', unit = ''] = bytes(all).split(' ');
  const scale = 1024 ** UNITS.indexOf(unit);
  return `${number(some / scale, 1)} / ${whole} ${unit}`;
}

/** `4` of a resource, in its own unit. */
export function amount(resource: string, value: number): string {
  return resource.endsWith('memory') ? bytes(value) : number(value, 2);
}

/** `2 CPU · 1 GPU · 16 GiB`; custom ones by their name. */
export function resources(given: Resources): string {
  const known = ['CPU', 'GPU', 'memory'];
  const rest = Object.keys(given)
    .filter((name) => !known.includes(name))
    .toSorted();
  return [...known, ...rest]
    .filter((name) => given[name])
    .map((name) => (name === 'memory' ? bytes(given[name]!) : `${amount(name, given[name]!)} ${name}`))
    .join(' · ');
}

const AROUND = /^(Traceback \(most recent call last\)|During handling of the above|The above exception was)/;
const FRAME = /^\s*File ".*, line /;

/** The last informative line of an error; like `Message::line` of the control plane. */
export function lastLine(text: string): string {
  const lines = text.split('\n');
  const says = (line: string, at: number): boolean => {
    const source = /^[ \t]/.test(line) && FRAME.test(lines[at - 1] ?? '');
    return /[\p{L}\p{N}]/u.test(line) && !AROUND.test(line.trim()) && !FRAME.test(line) && !source;
  };
  return (lines.filter(says).pop() ?? text).trim();
}

const WRAPPER = /^Job entrypoint command failed with exit code (-?\d+)/;

/** What the control plane says about a failure. */
export interface Failed {
  message?: string;
  cause?: string;
  exit_code?: number;
}

export function exitCode({ message, exit_code }: Failed): number | undefined {
  const found = WRAPPER.exec(message ?? '');
  return exit_code ?? (found ? Number(found[1]) : undefined);
}

/** Why something failed, in one line: never the line in which Ray only says that it did. */
export function headline(failed: Failed): string | undefined {
  const { message, cause } = failed;
  if (cause) return cause;
  const line = message && lastLine(message);
  return line && WRAPPER.test(line) ? onlyExit(failed) : line || undefined;
}

/** For a job that ended without a word. */
export function onlyExit(failed: Failed): string | undefined {
  const code = exitCode(failed);
  return code === undefined ? undefined : t('job.exitOnly', { n: code });
}
