// Keyboard shortcuts, and the dialog that lists them.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { t, type Key } from '../i18n';
import { go, link } from '../router';

const open = signal(false);

/** After `g`. */
const PLACES: Record<string, { to: string; label: Key }> = {
  o: { to: link.overview, label: 'overview' },
  j: { to: link.jobs, label: 'jobs' },
  q: { to: link.queue, label: 'queue' },
  w: { to: link.owners, label: 'owners' },
  a: { to: link.advice, label: 'advice' },
  t: { to: link.timeline, label: 'timeline' },
  e: { to: link.events, label: 'events' },
  s: { to: link.submit, label: 'submit' },
};
/** How long a `g` waits for the second key. */
const PAIR_MS = 1200;

export function toggleHelp(): void {
  open.value = !open.value;
}

export function listenForShortcuts(): () => void {
  let first = 0;
  const listen = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    if (target.closest('input, textarea, select, dialog[open]')) return;
    const place = Date.now() - first < PAIR_MS ? PLACES[event.key] : undefined;
    first = 0;
    if (place) go(place.to);
    else if (event.key === 'g') first = Date.now();
    else if (event.key === '?') toggleHelp();
    else if (event.key === '/') document.querySelector<HTMLElement>('[data-search]')?.focus();
    else return;
    event.preventDefault();
  };
  addEventListener('keydown', listen);
  return () => removeEventListener('keydown', listen);
}

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open.value]);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={() => (open.value = false)}>
      <h2 id="help-title">{t('help')}</h2>
      <dl>
        {Object.entries(PLACES).map(([key, { label }]) => (
          <div key={key}>
            <dt>
              <kbd>g</kbd> <kbd>{key}</kbd>
            </dt>
            <dd>{t(label)}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>{t('help.search')}</dd>
        </div>
        <div>
          <dt>
            <kbd>↑</kbd> <kbd>↓</kbd> <kbd>Enter</kbd>
          </dt>
          <dd>{t('help.rows')}</dd>
        </div>
        <div>
          <dt>
            <kbd>?</kbd>
          </dt>
          <dd>{t('help.help')}</dd>
        </div>
      </dl>
      <div class="actions">
        <button type="button" onClick={toggleHelp}>
          {t('close')}
        </button>
      </div>
    </dialog>
  );
}
