// Empty states, placeholders while loading, errors and toasts.

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

/** Grey lines until the data is there. */
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

/** A short message about what was done or what went wrong. */
export function toast(text: string, bad = false): void {
  const id = ++count;
  toasts.value = [...toasts.value, { id, text, bad }];
  setTimeout(() => dismiss(id), bad ? 10_000 : 4000);
}

/** Runs an action and shows its outcome as a toast. True: it succeeded. */
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
