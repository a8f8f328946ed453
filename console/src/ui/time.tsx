// Times and durations that keep ticking.

import type { Moment } from '../api/types';
import { clock, duration, fullMoment, roughly } from '../format';
import { t } from '../i18n';
import { now } from '../store/clock';

/** `12 s`, since then. */
export function Since({ at }: { at: Moment }) {
  return <time title={fullMoment(at)}>{duration(now.value - at)}</time>;
}

/** `12 s ago`. */
export function Ago({ at }: { at: Moment }) {
  return <time title={fullMoment(at)}>{t('ago', { time: roughly(now.value - at) })}</time>;
}

/** `14:03:22`. */
export function Clock({ at }: { at: Moment }) {
  return <time title={fullMoment(at)}>{clock(at, now.value)}</time>;
}

/** The time from one moment to the other, or to now. */
export function Span({ from, to }: { from: Moment; to: Moment | undefined }) {
  return <span class="num">{duration((to ?? now.value) - from)}</span>;
}
