// What a page shows when there is nothing, not yet anything, or something went wrong.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { ApiError } from '../api/client';
import { t } from '../i18n';
import { AlertIcon, CloseIcon } from './icons';

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

/** Lines in the place of what is on its way. */
export function Loading({ lines = 3 }: { lines?: number }) {
  return (
    <div class="loading" role="status" aria-label={t('loading')}>
      {Array.from({ length: lines }, (_, index) => (
        <div class="skeleton" key={index} />
      ))}
    </div>
  );
}

export function Problem({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <AlertIcon />
      <div>
        <p>{error.message}</p>
        {error.hint && <p class="muted">{error.hint}</p>}
      </div>
      {retry && (
        <button type="button" onClick={retry}>
          {t('retry')}
        </button>
      )}
    </div>
  );
}

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const toasts = signal<Toast[]>([]);
let count = 0;

/** Says shortly what was done, or why not. */
export function toast(text: string, bad = false): void {
  const id = ++count;
  toasts.value = [...toasts.value, { id, text, bad }];
  setTimeout(() => dismiss(id), bad ? 10_000 : 4000);
}

/** Does it, and says how it went. True: it was done. */
export async function attempt(doing: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await doing();
    toast(done);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast([error.message, error.hint].filter(Boolean).join(' · '), true);
    return false;
  }
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, bad }) => (
        <div class={bad ? 'toast toast-bad' : 'toast'} key={id}>
          <span>{text}</span>
          <button type="button" class="plain" aria-label={t('close')} onClick={() => dismiss(id)}>
            <CloseIcon />
          </button>
        </div>
      ))}
    </div>
  );
}
