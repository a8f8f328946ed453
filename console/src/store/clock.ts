// The control plane's clock: countdowns on the screen use it.

import { signal } from '@preact/signals';
import type { Cluster } from '../api/types';

/** A browser on another machine may be ahead or behind; less than this is not worth a jump. */
const TOLERANCE_MS = 2000;
let ahead = 0;

/** The current time. */
export const current = (): number => Date.now() + ahead;

/** Once a second. */
export const now = signal(current());

setInterval(() => {
  if (!document.hidden) now.value = current();
}, 1000);
document.addEventListener('visibilitychange', () => (now.value = current()));

/** The time until a cluster accepts the next top-level submission, in whole seconds; 0: now. */
export function untilNext({ next_submission_at }: Cluster): number {
  return Math.max(0, Math.ceil(((next_submission_at ?? 0) - now.value) / 1000) * 1000);
}

/** The `Date` header of an answer, in whole seconds. */
export function heard(date: string | null): void {
  const seen = date === null ? Number.NaN : Date.parse(date) + 500 - Date.now();
  if (Math.abs(seen - ahead) > TOLERANCE_MS) ahead = seen;
}
